-- release_all: releases several locks, each as release does.
-- KEYS[4i-3] the i-th lock, KEYS[4i-2] the fencing mark of its hash slot, KEYS[4i-1] its fencing
-- counter, KEYS[4i] its queue
-- ARGV[i] owner of the i-th lock
-- Returns the replies of release, one for each lock, in one text: '1 2 -1'
local replies, freed = {}, {}
local function hand_over(lock, mark, counter, queue_key, owner)
  if redis.pcall('LLEN', queue_key) == 0 then
    return false
  end
  -- As in release: at `maxmemory` the first write of a script may not be a SET.
  redis.pcall('PEXPIRE', lock, claim_window)
  return queue_of(lock, mark, counter, queue_key, owner).hand_over(owner)
end
for i, owner in ipairs(ARGV) do
  local lock, mark, counter, queue_key =
    KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i]
  -- pcall: a key of another type counts as "not ours", and must not fail the other releases.
  local holder = redis.pcall('GET', lock)
  if holder ~= owner then
    replies[i] = holder and -1 or 0
  elseif hand_over(lock, mark, counter, queue_key, owner) then
    replies[i] = 2
  else
    replies[i], freed[#freed + 1] = 1, lock
  end
end
if #freed > 0 then
  redis.call('DEL', unpack(freed))
end
return table.concat(replies, ' ')
