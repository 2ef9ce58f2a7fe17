-- nudge: hands a free lock to the first entry of its queue: the last process that was handed it may
-- be dead.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue
-- ARGV[1] an owner of the client that sent the command, or none
-- Returns {remaining ms of the lock (-2: free), length of the queue}
local lock, mark, counter, queue_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if not redis.call('GET', lock)
  and not queue_of(lock, mark, counter, queue_key, ARGV[1]).hand_over() then
  redis.call('DEL', lock)
end
return {redis.call('PTTL', lock), redis.call('LLEN', queue_key)}
