-- acquire: takes a free lock, with the next fencing token. Idempotent per owner.
-- KEYS[1] the lock, KEYS[2] its fencing counter (same hash slot)
-- ARGV[1] owner, ARGV[2] expire in ms, ARGV[3] life of the counter in ms
-- Returns '<fencing token> <time>' or {0, remaining ms of the holder (-1: no expiry), holder, time};
-- time: the server's, in microseconds since 1970. It stays text, and what is granted is one text:
-- numbers and tables would cost as much as the rest.
local lock, counter, owner = KEYS[1], KEYS[2], ARGV[1]
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
local holder = redis.call('GET', lock)
if holder and holder ~= owner then
  return {0, redis.call('PTTL', lock), holder, now}
end
local last = redis.call('GET', counter)
if holder and last then
  redis.call('PEXPIRE', lock, ARGV[2])
  return last .. ' ' .. now
end
local token, next = now, tonumber(last or '0') + 1
if next > tonumber(now) then
  token = string.format('%.0f', next)
end
-- The counter first, the lock last: a script that fails half-way is not rolled back.
redis.call('SET', counter, token, 'PX', ARGV[3])
redis.call('SET', lock, owner, 'PX', ARGV[2])
return token .. ' ' .. now
