-- release: an owner leaves the holders of a lock of a shared kind. The last of them hands the lock to
-- the first entry of the queue, or deletes it. An owner that is in the queue itself leaves it.
-- KEYS[1] the lock, KEYS[2] its holders, KEYS[3] the fencing mark of its hash slot, KEYS[4] its fencing
-- counter, KEYS[5] its queue; the first two alone: the queue is left out
-- ARGV[1] owner, ARGV[2] what stands in the lock, ARGV[3] 'leave' for one in the queue
-- Returns 1 (released), 2 (handed over), 0 (gone) or -1 (another owner)
local lock, holders, line = KEYS[1], KEYS[2], KEYS[5]
local owner, marker = ARGV[1], ARGV[2]
local is_awaited = line and redis.pcall('LLEN', line) ~= 0
local queue = is_awaited and queue_of(lock, KEYS[3], KEYS[4], line, owner)
if queue and ARGV[3] == 'leave' then
  queue.leave(owner)
end
local holder = redis.call('GET', lock)
if holder ~= marker then
  return holder and -1 or 0
end
local ends = redis.call('ZSCORE', holders, owner)
if not ends then
  return 0
end
local now = clock()
redis.call('ZREM', holders, owner)
local found = tonumber(ends) > now and 1 or 0
if queue then
  queue.group().end_leases()
else
  redis.call('ZREMRANGEBYSCORE', holders, '-inf', string.format('%.0f', now))
end
local last = tonumber(redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2] or '0')
if last <= now then
  -- The marker first: whoever is next begins a new group, with leases of its own.
  redis.call('DEL', lock, holders)
  if not queue then
    return found
  end
  if queue.hand_over() then
    return found * 2
  end
  redis.call('DEL', lock)
  return found
end
local left = math.ceil((last - now) / 1000)
local is_earlier = left < redis.call('PTTL', lock)
if is_earlier then
  redis.call('PEXPIRE', lock, left)
  redis.call('PEXPIRE', holders, left + (queue and queue.group().memory or 0))
end
if queue then
  queue.group().admit()
  -- Whoever is first now may have to look earlier than it thought.
  local text = is_earlier and redis.pcall('LINDEX', line, 0)
  local first = type(text) == 'string' and queue.parse(text)
  if first and first.channel ~= '-' then
    queue.tell_of_lock(first, 'look')
  end
end
return found
