-- quick_release: the usual case of release: the lock has its owner, nobody waits, and no fencing
-- tokens are given back. It comes first in that script, because creating the functions of the other
-- parts costs the server as much as this part. They handle all other cases.
-- KEYS[1] .. KEYS[4], ARGV[1] .. ARGV[5] and Returns: those of release
if KEYS[4] and not ARGV[2] and redis.call('GET', KEYS[1]) == ARGV[1]
  and redis.pcall('LLEN', KEYS[4]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end
