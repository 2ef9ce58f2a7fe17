-- release_all: releases several locks, each of them as release does.
-- KEYS[4i-3] the i-th lock, KEYS[4i-2] the fencing mark of its hash slot, KEYS[4i-1] its fencing
-- counter, KEYS[4i] its queue
-- ARGV[i] owner of the i-th lock
-- Returns what release returns of each, in one text: '1 2 -1'
local found, freed = {}, {}
for i, owner in ipairs(ARGV) do
  local lock, mark, counter, line = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i]
  -- pcall: a key of another type is "not ours", and must not fail the others.
  local holder = redis.pcall('GET', lock)
  if holder ~= owner then
    found[i] = holder and -1 or 0
  elseif redis.pcall('LLEN', line) ~= 0
    and queue_of(lock, mark, counter, line, owner).hand_over(owner) then
    found[i] = 2
  else
    found[i], freed[#freed + 1] = 1, lock
  end
end
if #freed > 0 then
  redis.call('DEL', unpack(freed))
end
return table.concat(found, ' ')
