-- nudge: hands a lock that is free to the first entry of its queue: the last receiver may be dead.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue
-- ARGV[1] an owner of the client that sends it, or none
-- Returns {remaining ms of the lock (-2: free), how many wait}
local lock, mark, counter, line = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if not redis.call('GET', lock) and not queue_of(lock, mark, counter, line, ARGV[1]).hand_over() then
  redis.call('DEL', lock)
end
return {redis.call('PTTL', lock), redis.call('LLEN', line)}
