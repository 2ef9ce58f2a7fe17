-- quick_release: the usual case of release: nobody waits, and the owner is the only holder, or the
-- leases of others go on. It comes first in that script, because creating the functions of the
-- other parts costs the server as much as this part. They handle all other cases.
-- KEYS[1] .. KEYS[5], ARGV[1] .. ARGV[3] and Returns: those of release
do
  local lock, holders, queue_key, owner = KEYS[1], KEYS[2], KEYS[5], ARGV[1]
  if queue_key and redis.pcall('LLEN', queue_key) == 0 and redis.call('GET', lock) == ARGV[2] then
    -- The two owners whose leases end last, and the ends.
    local last_two = redis.call('ZRANGE', holders, -2, -1, 'WITHSCORES')
    if last_two[1] == owner and not last_two[3] then
      redis.call('DEL', lock, holders)
      return 1
    end
    local time, lease_end = redis.call('TIME'), redis.call('ZSCORE', holders, owner)
    local now = time[1] * 1000000 + time[2]
    local others_end = tonumber(last_two[3] == owner and last_two[2] or last_two[4] or '0')
    if lease_end and others_end > now then
      redis.call('ZREM', holders, owner)
      redis.call('ZREMRANGEBYSCORE', holders, '-inf', string.format('%.0f', now))
      local remaining = math.min(math.ceil((others_end - now) / 1000), 10000000000000)
      local left = redis.call('PTTL', lock)
      -- Below 0: somebody has taken the expiry of the marker away.
      if left < 0 or remaining < left then
        redis.call('PEXPIRE', lock, remaining)
        redis.call('PEXPIRE', holders, remaining)
      end
      return tonumber(lease_end) > now and 1 or 0
    end
  end
end

