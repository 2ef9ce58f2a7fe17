-- renew: extends the leases of locks that still have their owners. Never creates a key.
-- KEYS[i] the i-th lock (all in one hash slot on a cluster)
-- ARGV[2i-1] owner, ARGV[2i] expire in ms
-- Returns the server's time, in microseconds since 1970, and the failures only, flat:
-- {time, i, 0 (gone) or 1 (another owner), ...}; an error: this user may not read the locks
local time = redis.call('TIME')
local reply = {time[1] * 1000000 + time[2]}
for i, lock in ipairs(KEYS) do
  -- pcall: a key of another type counts as "not ours", and must not fail the rest of the batch.
  local holder = redis.pcall('GET', lock)
  if holder == ARGV[2 * i - 1] then
    redis.call('PEXPIRE', lock, ARGV[2 * i])
  elseif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    -- This user may not ask who holds the lock. That says nothing about the lease.
    return holder
  else
    reply[#reply + 1] = i
    reply[#reply + 1] = holder and 1 or 0
  end
end
return reply
