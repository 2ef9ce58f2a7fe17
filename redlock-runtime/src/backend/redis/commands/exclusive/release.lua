-- release: hands the lock to the first entry of its queue if it still has its owner; deletes the
-- lock if no process takes it. An owner that is in the queue leaves it.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue; the lock alone: the queue is left out
-- ARGV[1] owner, ARGV[2] if the owner may be in the queue: how many were ahead of it when it was
-- seen last, or 'leave' if that is not known, ARGV[3] last fencing token used, '': all that were
-- reserved, ARGV[4] last fencing token reserved, ARGV[5] life of the counter in ms. Empty arguments
-- at the end may be left out.
-- Returns 1 (released), 2 (handed over), 0 (gone) or -1 (another owner)
local lock, mark, counter, queue_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, last_used, last_reserved = ARGV[1], ARGV[3], ARGV[4]
if queue_key and (ARGV[2] or '') ~= '' then
  queue_of(lock, mark, counter, queue_key, owner).leave(owner, ARGV[2])
end
local holder = redis.call('GET', lock)
if holder ~= owner then
  return holder and -1 or 0
end
if queue_key then
  last_used = last_used ~= '' and last_used or nil
  -- Unused fencing tokens are given back only if nobody has drawn since.
  local is_given_back = last_used and redis.pcall('GET', counter) == last_reserved
  if redis.pcall('LLEN', queue_key) ~= 0 then
    -- At `maxmemory` the first write of a script may not be a SET, as that of hand_over is. The
    -- lock has its next owner behind this, or is deleted.
    redis.pcall('PEXPIRE', lock, claim_window)
    local queue = queue_of(lock, mark, counter, queue_key, owner)
    if queue.hand_over(owner, last_used, last_reserved) then
      return 2
    end
  end
  if is_given_back then
    redis.pcall('SET', counter, last_used, 'PX', ARGV[5])
  end
end
redis.call('DEL', lock)
return 1
