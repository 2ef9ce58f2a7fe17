-- raise: lifts the fencing counter of a lock that still has its owner.
-- KEYS[1] the lock, KEYS[2] its fencing counter (same hash slot)
-- ARGV[1] owner, ARGV[2] fencing token, ARGV[3] life of the counter in ms
-- Returns 1 (the counter is at least the token), 0 (lock gone) or -1 (another owner)
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return holder and -1 or 0
end
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if last < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
return 1
