-- quick_acquire: what most calls of acquire find: nobody waits, and the lock is free, or a reader comes
-- to readers. It stands ahead of all other parts of that script, as making their functions costs the
-- server as much as this. What it does not decide, they decide.
-- KEYS[1] .. KEYS[5], ARGV[1] .. ARGV[4] and Returns: those of acquire
do
  local lock, mark, counter, holders = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
  local expire, tokens = tonumber(ARGV[2]), ARGV[4]
  local holder = redis.call('GET', lock)
  local is_simple = not holder or holder == '<readers>' and tokens == 'r'
  if is_simple and redis.call('LLEN', KEYS[4]) == 0 then
    local last, time = redis.call('MGET', mark, counter), redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    -- MGET finds nothing in a key of another type, and GET fails.
    local of_slot = tonumber(last[1] or redis.call('GET', mark) or '0')
    local of_lock = tonumber(last[2] or '0')
    local limit = 9007199254740991
    if of_slot and of_slot < limit and of_lock and of_lock < limit then
      local next = math.max(of_slot, of_lock) + 1
      local token, life = math.max(next, now), 172800000 + math.max(0, next - now) / 1000
      local first = string.format('%.0f', token)
      -- The mark first, the lock last: a script that fails half-way is not rolled back.
      redis.call('SET', mark, first, 'PX', string.format('%.0f', life))
      if last[2] then
        -- It would be below this fencing token.
        redis.call('DEL', counter)
      end
      if not holder then
        redis.call('ZREMRANGEBYSCORE', holders, '-inf', '+inf')
      end
      -- Even: nobody was invited.
      redis.call('ZADD', holders, string.format('%.0f', now - now % 2 + expire * 1000), ARGV[1])
      local left = holder and redis.call('PTTL', lock) or 0
      -- Always: holders that were deleted by hand have just come back without an end.
      redis.call('PEXPIRE', holders, string.format('%.0f', math.max(left, expire)))
      if left < expire then
        redis.call('SET', lock, tokens == 'r' and '<readers>' or '<permits>', 'PX', ARGV[2])
      end
      return {1, first, first, now}
    end
  end
end

