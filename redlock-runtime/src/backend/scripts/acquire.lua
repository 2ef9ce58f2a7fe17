-- acquire: takes a free lock, with the next fencing token. Idempotent per owner.
-- KEYS[1] the lock, KEYS[2] its fencing counter (same hash slot)
-- ARGV[1] owner, ARGV[2] expire in ms, ARGV[3] life of the counter in ms
-- Returns {1, fencing token, time} or {0, remaining ms of the holder (-1: no expiry), holder, time};
-- time: the server's, in microseconds since 1970
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {0, redis.call('PTTL', KEYS[1]), holder, now}
end
if holder then
  local last = redis.call('GET', KEYS[2])
  if last then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return {1, last, now}
  end
end
local next = tonumber(redis.call('GET', KEYS[2]) or '0') + 1
if now > next then
  next = now
end
local granted = string.format('%.0f', next)
-- The counter first, the lock last: a script that fails half-way is not rolled back.
redis.call('SET', KEYS[2], granted, 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, granted, now}
