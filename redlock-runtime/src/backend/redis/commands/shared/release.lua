-- release: removes an owner from the holders of a lock of a shared kind. The last of them hands the
-- lock to the first entry of the queue, or deletes it. An owner that is in the queue leaves it.
-- KEYS[1] the lock, KEYS[2] its holders, KEYS[3] the fencing mark of its hash slot,
-- KEYS[4] its fencing counter, KEYS[5] its queue; the first two alone: the queue is left out
-- ARGV[1] owner, ARGV[2] marker in the lock, ARGV[3] if the owner may be in the queue: how many were
-- ahead of it when it was seen last, or 'leave' if that is not known; '' otherwise
-- Returns 1 (released), 2 (handed over), 0 (gone) or -1 (another owner)
local lock, holders, queue_key = KEYS[1], KEYS[2], KEYS[5]
local owner, marker = ARGV[1], ARGV[2]
local has_waiters = queue_key and redis.pcall('LLEN', queue_key) ~= 0
local queue = has_waiters and queue_of(lock, KEYS[3], KEYS[4], queue_key, owner)
if queue and (ARGV[3] or '') ~= '' then
  queue.leave(owner, ARGV[3])
end
local holder = redis.call('GET', lock)
if holder ~= marker then
  return holder and -1 or 0
end
local lease_end = redis.call('ZSCORE', holders, owner)
if not lease_end then
  return 0
end
-- The two owners whose leases end last, and the ends. From the next write on, a key that is gone
-- counts as one of the other server while its slot is moved, so that it is not read any more.
local last_two = redis.call('ZRANGE', holders, -2, -1, 'WITHSCORES')
local last_end = tonumber(last_two[3] == owner and last_two[2] or last_two[4] or '0')
local now = clock()
redis.call('ZREM', holders, owner)
local reply = tonumber(lease_end) > now and 1 or 0
if queue then
  queue.group().end_leases()
else
  redis.pcall('ZREMRANGEBYSCORE', holders, '-inf', string.format('%.0f', now))
end
if last_end <= now then
  -- The marker first: the next owner begins a new group, with leases of its own.
  redis.call('DEL', lock)
  if not queue then
    return reply
  end
  if queue.hand_over(owner) then
    return reply * 2
  end
  redis.pcall('DEL', lock)
  return reply
end
local remaining = math.min(math.ceil((last_end - now) / 1000), 10000000000000)
local left = redis.call('PTTL', lock)
-- Below 0: somebody has taken the expiry of the marker away.
local ends_earlier = left < 0 or remaining < left
if ends_earlier then
  redis.call('PEXPIRE', lock, remaining)
  redis.call('PEXPIRE', holders, remaining + (queue and queue.group().extra_life or 0))
end
if queue then
  queue.group().admit(owner)
  if ends_earlier then
    queue.disturb_first()
  end
end
return reply
