-- notice: asks to be told, once, when the lock is let go of. Where there is no line to stand in: the
-- entry has a place among those of the line, but nothing is handed to it.
-- KEYS[1] the lock, KEYS[2] its line (same hash slot)
-- ARGV[1] owner, ARGV[2] channel
-- Returns 1 (it will be told), or 0 (the lock is free)
if not redis.call('GET', KEYS[1]) then
  return 0
end
redis.call('RPUSH', KEYS[2], '0 0 0 ' .. ARGV[2] .. ' ' .. ARGV[1])
redis.call('PEXPIRE', KEYS[2], 60000)
return 1
