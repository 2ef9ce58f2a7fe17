-- retain: gives up a lock that has to stay taken for a while: replaces its owner by a value that no
-- command of the owner matches. A repetition changes nothing.
-- KEYS[1] the lock, KEYS[2] its queue; the lock alone: the queue is left out
-- ARGV[1] owner, ARGV[2] owner value of the retained lock, ARGV[3] remaining ms
-- Returns 1 (retained), 2 (retained, and somebody waits), 0 (gone) or -1 (another owner)
local lock, queue_key, owner, retained = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local holder = redis.call('GET', lock)
if holder == owner then
  -- At `maxmemory` the first write of a script may not be a SET.
  redis.call('PEXPIRE', lock, ARGV[3])
  redis.call('SET', lock, retained, 'PX', ARGV[3])
elseif holder ~= retained then
  return holder and -1 or 0
end
-- pcall: a release must not fail because of the queue.
local queue_length = queue_key and redis.pcall('LLEN', queue_key)
return type(queue_length) == 'number' and queue_length > 0 and 2 or 1
