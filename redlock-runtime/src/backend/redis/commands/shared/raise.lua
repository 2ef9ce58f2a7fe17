-- raise: raises the fencing mark of a lock of a shared kind that an owner still holds, and its
-- fencing counter if there is one, to a fencing token.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its holders
-- ARGV[1] owner, ARGV[2] fencing token, ARGV[3] life of the counter in ms, ARGV[4] marker in the
-- lock
-- Returns 1 (both are at least the token), 0 (lock gone) or -1 (another owner)
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[4] then
  return holder and -1 or 0
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease_end = redis.call('ZSCORE', KEYS[4], ARGV[1])
if not lease_end or tonumber(lease_end) <= now then
  return 0
end
local fencing_token = tonumber(ARGV[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
-- The mark is no number, or `nan`, which does not equal itself.
if last ~= last or not last then
  return redis.error_reply('FENCE no fencing token is left behind ' .. KEYS[2])
end
local raised = last < fencing_token and fencing_token or last
-- A mark beyond all tokens that can be drawn has no longer life than the largest of these.
local ahead_ms = math.max(0, math.min(raised, 9007199254740990) - now) / 1000
local mark_life = string.format('%.0f', 172800000 + ahead_ms)
-- A mark that needs no raising is written as well: `WAIT` counts the replicas that have the last
-- write of its own connection, and would be content with that of an earlier command. At `maxmemory`
-- the first write of a script may not be a SET, and this one serves an owner that has its lock
-- already.
redis.call('PEXPIRE', KEYS[2], mark_life)
if last < fencing_token then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', mark_life)
end
-- If there is a counter, the next fencing token comes after it. A counter that is no number is
-- raised, too.
local counter = redis.pcall('GET', KEYS[3])
if type(counter) == 'string' and not ((tonumber(counter) or 0) >= fencing_token) then
  redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
end
return 1
