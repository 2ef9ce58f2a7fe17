-- release_hint: puts an entry into the queue that asks for one signal when the lock is released.
-- For waiters that poll: the lock is not handed to such an entry. If readers or permits hold the
-- lock, the entry of a waiter for the exclusive lock keeps out later readers and permits, until it
-- is taken back, or for two seconds.
-- KEYS[1] the lock, KEYS[2] its queue (same hash slot)
-- ARGV[1] owner, ARGV[2] channel, ARGV[3] '0' (exclusive), 'r' (reader) or
-- 'p<n>' (one of n permits)
-- Returns 1 (a signal will come), 2 (the same, and the entry has to be taken back), or
-- 0 (the lock is free)
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
local stays_until = 0
if ARGV[3] == '0' and (holder == '<readers>' or holder == '<permits>') then
  local time = redis.call('TIME')
  stays_until = time[1] * 1000 + math.floor(time[2] / 1000) + 2000
end
local entry_start = string.format('0 %.0f %s %s ', stays_until, ARGV[3], ARGV[2])
redis.call('RPUSH', KEYS[2], entry_start .. ARGV[1])
-- A queue that has an expiry keeps it: hints of processes that are gone would stay for as long as
-- others ask for theirs. Those ask again within a second.
if redis.call('PTTL', KEYS[2]) < 0 then
  redis.call('PEXPIRE', KEYS[2], 60000)
end
return stays_until == 0 and 1 or 2
