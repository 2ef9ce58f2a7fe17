-- rotate: hands the lock to the first entry of its queue, and puts the process of its owner at the
-- end of the queue, with another owner. If nobody waits, the owner keeps the lock, with a full
-- lease and more fencing tokens.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue
-- ARGV[1] owner, ARGV[2] last fencing token used, ARGV[3] last fencing token reserved, ARGV[4] next
-- owner, ARGV[5] expire in ms, ARGV[6] life of the counter in ms, ARGV[7] fencing tokens,
-- ARGV[8] channel
-- Returns {1, first fencing token, last, time}: kept; {2, remaining ms of the holder, holder, time,
-- how many entries are ahead, 1 if it gets signals, or 0}: handed over; {0, time} (gone) or
-- {-1, time} (another owner, also where the lock was handed over, and the process is in no queue)
local lock, mark, counter, queue_key, owner = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local now = clock()
local holder = redis.call('GET', lock)
if holder ~= owner then
  return {holder and -1 or 0, now}
end
-- At `maxmemory` the first write of a script may not be a SET. An owner that keeps the lock has it
-- for this time anyway.
redis.pcall('PEXPIRE', lock, ARGV[5])
local queue = queue_of(lock, mark, counter, queue_key, owner)
if queue.hand_over(owner, ARGV[2], ARGV[3]) then
  local entry = table.concat({ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[4]}, ' ')
  -- pcall: a queue whose only entry was removed cannot be written while its slot is moved. The lock
  -- has another owner by now.
  local length = redis.pcall('RPUSH', queue_key, entry)
  if type(length) ~= 'number' then
    return {-1, now}
  end
  redis.call('PEXPIRE', queue_key, queue_life)
  local is_signalled = ARGV[8] == '-' and 0 or 1
  local next_holder = queue.describe_holder(redis.call('GET', lock))
  return {2, redis.call('PTTL', lock), next_holder, now, length - 1, is_signalled}
end
local first, last = queue.draw(ARGV[7], ARGV[6], ARGV[2], ARGV[3])
if not first then
  return redis.error_reply(last)
end
redis.call('SET', lock, owner, 'PX', ARGV[5])
return {1, first, last, now}
