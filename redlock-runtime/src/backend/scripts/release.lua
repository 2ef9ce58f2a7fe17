-- release: deletes the lock if it still has its owner.
-- KEYS[1] the lock
-- ARGV[1] owner
-- Returns 1 (released), 0 (gone) or -1 (another owner)
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end
return holder and -1 or 0
