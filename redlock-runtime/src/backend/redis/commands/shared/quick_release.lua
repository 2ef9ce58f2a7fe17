-- quick_release: what most calls of release find: nobody waits, and the owner is the only holder, or
-- the leases of others go on. It stands ahead of all other parts of that script, as making their
-- functions costs the server as much as this. What it does not decide, they decide.
-- KEYS[1] .. KEYS[5], ARGV[1] .. ARGV[3] and Returns: those of release
do
  local lock, holders, line, owner = KEYS[1], KEYS[2], KEYS[5], ARGV[1]
  if line and redis.pcall('LLEN', line) == 0 and redis.call('GET', lock) == ARGV[2] then
    -- The last two to end, and when.
    local last = redis.call('ZRANGE', holders, -2, -1, 'WITHSCORES')
    if last[1] == owner and not last[3] then
      redis.call('DEL', lock, holders)
      return 1
    end
    local time, ends = redis.call('TIME'), redis.call('ZSCORE', holders, owner)
    local now = time[1] * 1000000 + time[2]
    local others_end = tonumber(last[3] == owner and last[2] or last[4] or '0')
    if ends and others_end > now then
      redis.call('ZREM', holders, owner)
      redis.call('ZREMRANGEBYSCORE', holders, '-inf', string.format('%.0f', now))
      local left = math.ceil((others_end - now) / 1000)
      if left < redis.call('PTTL', lock) then
        redis.call('PEXPIRE', lock, left)
        redis.call('PEXPIRE', holders, left)
      end
      return tonumber(ends) > now and 1 or 0
    end
  end
end

