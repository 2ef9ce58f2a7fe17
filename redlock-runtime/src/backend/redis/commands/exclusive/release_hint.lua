-- release_hint: asks to be told, once, of a release. For waiters that poll: the entry stands in the
-- queue, but no lock is handed to it.
-- KEYS[1] the lock, KEYS[2] its queue (same hash slot)
-- ARGV[1] owner, ARGV[2] channel, ARGV[3] '0', or a shared kind: 'r' or 'p<n>'
-- Returns 1 (it will be told), or 0 (the lock is free)
if not redis.call('GET', KEYS[1]) then
  return 0
end
redis.call('RPUSH', KEYS[2], '0 0 ' .. ARGV[3] .. ' ' .. ARGV[2] .. ' ' .. ARGV[1])
redis.call('PEXPIRE', KEYS[2], 60000)
return 1
