-- renew: extends the leases of holders of locks of shared kinds. Never adds a holder, and never
-- creates a lock.
-- KEYS[2i-1] the locks, KEYS[2i] their holders (in one hash slot on a cluster)
-- ARGV[3i-2] owner, ARGV[3i-1] expire in ms, ARGV[3i] marker in the lock
-- Returns the server's time, in microseconds since 1970, and the failures only, flat:
-- {time, i, 0 (gone) or 1 (another owner), ...}; an error: this user may not read the leases
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reply, has_written = {now}, false
for i = 1, #KEYS / 2 do
  local lock, holders = KEYS[2 * i - 1], KEYS[2 * i]
  local owner, expire, marker = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  -- pcall: a key of another type counts as "not ours", and must not fail the rest of the batch.
  local holder = redis.pcall('GET', lock)
  local lease_end = holder == marker and redis.pcall('ZSCORE', holders, owner)
  local failure = type(holder) == 'table' and holder or type(lease_end) == 'table' and lease_end
  if failure and not string.find(failure.err, 'WRONGTYPE', 1, true) then
    -- This user may not ask for leases. That says nothing about them.
    return failure
  end
  if type(lease_end) == 'string' and tonumber(lease_end) > now then
    if not has_written then
      -- At `maxmemory` the server refuses ZADD as the first write of a script, though this ZADD only
      -- changes an end. This ZREM removes nothing.
      redis.call('ZREM', holders, '')
      has_written = true
    end
    -- An even end: the owner has claimed the lock.
    redis.call('ZADD', holders, 'XX', string.format('%.0f', now - now % 2 + expire * 1000), owner)
    local remaining, longest = redis.call('PTTL', lock), tonumber(expire)
    if remaining > longest or remaining < 0 then
      -- Another lease is longer, the clock has stepped back since the marker got its expiry, or
      -- somebody has taken that away. An end that another program has written may be endless.
      local last_end = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
      longest = math.min(math.ceil((last_end - now) / 1000), 10000000000000)
    end
    if remaining < longest or remaining > longest + 1 then
      redis.call('PEXPIRE', lock, longest)
      redis.call('PEXPIRE', holders, longest)
    end
  else
    reply[#reply + 1] = i
    reply[#reply + 1] = holder and holder ~= marker and 1 or 0
  end
end
return reply
