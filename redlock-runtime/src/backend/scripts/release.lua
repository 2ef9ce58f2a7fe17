-- release: hands the lock to the first in line if it still has its owner; deletes it if nobody
-- waits. An owner that stands in line itself leaves it.
-- KEYS[1] the lock, KEYS[2] its fencing counter, KEYS[3] its line (same hash slot); the lock alone:
-- the line is left out
-- ARGV[1] owner, ARGV[2] the last fencing token that was used, or '': all that were reserved,
-- ARGV[3] life of the counter in ms, ARGV[4] 'leave' for one in line, ARGV[5] claim window in ms,
-- ARGV[6] 'cluster' on a cluster
-- Returns 1 (released), 2 (handed over), 0 (gone) or -1 (another owner)
local lock, counter, line = KEYS[1], KEYS[2], KEYS[3]
if line and ARGV[4] == 'leave' then
  local entry = find(line, ARGV[1])
  if entry then
    redis.pcall('LREM', line, 1, entry)
  end
end
local holder = redis.call('GET', lock)
if holder ~= ARGV[1] then
  return holder and -1 or 0
end
if line then
  if hand_over(lock, counter, line, ARGV[5], ARGV[6] == 'cluster', ARGV[2]) then
    return 2
  end
  if ARGV[2] ~= '' then
    redis.pcall('SET', counter, ARGV[2], 'PX', ARGV[3])
  end
end
redis.call('DEL', lock)
return 1
