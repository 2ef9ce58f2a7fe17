-- quick_release_all: the usual case of release_all: all locks have their owners, and nobody waits.
-- It comes first in that script, because creating the functions of the other parts costs the server
-- as much as this part. They handle all other cases.
-- KEYS[4i-3] .. KEYS[4i], ARGV[i] and Returns: those of release_all
do
  local locks, replies = {}, {}
  for i, owner in ipairs(ARGV) do
    local lock = KEYS[4 * i - 3]
    if redis.pcall('GET', lock) ~= owner or redis.pcall('LLEN', KEYS[4 * i]) ~= 0 then
      break
    end
    locks[i], replies[i] = lock, '1'
  end
  if #ARGV > 0 and #locks == #ARGV then
    redis.call('DEL', unpack(locks))
    return table.concat(replies, ' ')
  end
end

