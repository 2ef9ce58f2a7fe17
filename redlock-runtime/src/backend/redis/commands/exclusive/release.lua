-- release: hands the lock to the first entry of its queue if it still has its owner; deletes it if
-- the queue is empty. An owner that is in the queue itself leaves it.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue; the lock alone: the queue is left out
-- ARGV[1] owner, ARGV[2] 'leave' for one in the queue, ARGV[3] the last fencing token that was used, or
-- '': all that were reserved, ARGV[4] the last that was reserved, ARGV[5] life of the counter in ms.
-- What is empty may be left out at the end.
-- Returns 1 (released), 2 (handed over), 0 (gone) or -1 (another owner)
local lock, mark, counter, line = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, used, reserved = ARGV[1], ARGV[3], ARGV[4]
if line and ARGV[2] == 'leave' then
  queue_of(lock, mark, counter, line, owner).leave(owner)
end
local holder = redis.call('GET', lock)
if holder ~= owner then
  return holder and -1 or 0
end
if line then
  used = used ~= '' and used or nil
  -- Otherwise somebody has drawn since.
  local is_given_back = used and redis.pcall('GET', counter) == reserved
  if redis.pcall('LLEN', line) ~= 0
    and queue_of(lock, mark, counter, line, owner).hand_over(owner, used, reserved) then
    return 2
  end
  if is_given_back then
    redis.pcall('SET', counter, used, 'PX', ARGV[5])
  end
end
redis.call('DEL', lock)
return 1
