-- raise: raises the fencing mark of a lock that still has its owner, and its fencing counter if
-- there is one, to a fencing token.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter
-- ARGV[1] owner, ARGV[2] fencing token, ARGV[3] life of the counter in ms
-- Returns 1 (both are at least the token), 0 (lock gone) or -1 (another owner)
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return holder and -1 or 0
end
local fencing_token = tonumber(ARGV[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
-- The mark is no number, or `nan`, which does not equal itself.
if last ~= last or not last then
  return redis.error_reply('FENCE no fencing token is left behind ' .. KEYS[2])
end
-- At `maxmemory` the first write of a script may not be a SET, and this one serves a caller that
-- has its locks already.
local function set(key, life)
  redis.call('PEXPIRE', key, life)
  redis.call('SET', key, ARGV[2], 'PX', life)
end
if last < fencing_token then
  local time = redis.call('TIME')
  local ahead_ms = math.max(0, fencing_token - time[1] * 1000000 - time[2]) / 1000
  set(KEYS[2], string.format('%.0f', 172800000 + ahead_ms))
end
-- If there is a counter, the next fencing token comes after it. A counter that is no number is
-- raised, too.
local counter = redis.pcall('GET', KEYS[3])
if type(counter) == 'string' and not ((tonumber(counter) or 0) >= fencing_token) then
  set(KEYS[3], ARGV[3])
end
return 1
