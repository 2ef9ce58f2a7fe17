-- downgrade: turns the holder of an exclusive lock into a reader with another owner, and lets in
-- the readers at the head of the queue. Nobody else can have the lock in between.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue, KEYS[5] its holders
-- ARGV[1] owner, ARGV[2] owner of the reader, ARGV[3] expire in ms, ARGV[4] life of the counter
-- in ms
-- Returns {1, fencing token, the same, time}; {0, time} (gone) or {-1, time} (another owner)
local lock, mark, counter, queue_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local shared = shared_lock(lock, mark, counter, queue_key, ARGV[1], 'r')
if not shared.holds(ARGV[2]) then
  local holder = redis.call('GET', lock)
  if holder ~= ARGV[1] then
    return {holder and -1 or 0, clock()}
  end
end
shared.needs_no_memory(KEYS[5])
local granted = shared.join(ARGV[2], ARGV[3], ARGV[4])
if not granted.err then
  shared.queue.group().admit()
end
return granted
