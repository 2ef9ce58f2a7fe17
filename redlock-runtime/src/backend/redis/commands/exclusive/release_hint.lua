-- release_hint: asks to be told, once, of a release. For waiters that poll: the entry stands in the
-- queue, but no lock is handed to it. Where readers or permits hold the lock, the entry of a waiter
-- that wants it alone keeps out those who come later, until it is taken back, or for two seconds.
-- KEYS[1] the lock, KEYS[2] its queue (same hash slot)
-- ARGV[1] owner, ARGV[2] channel, ARGV[3] '0', or a shared kind: 'r' or 'p<n>'
-- Returns 1 (it will be told), 2 (the same, and it has to be taken back), or 0 (the lock is free)
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
local stays_until = 0
if ARGV[3] == '0' and (holder == '<readers>' or holder == '<permits>') then
  local time = redis.call('TIME')
  stays_until = time[1] * 1000 + math.floor(time[2] / 1000) + 2000
end
local entry = string.format('0 %.0f %s %s ', stays_until, ARGV[3], ARGV[2])
redis.call('RPUSH', KEYS[2], entry .. ARGV[1])
redis.call('PEXPIRE', KEYS[2], 60000)
return stays_until == 0 and 1 or 2
