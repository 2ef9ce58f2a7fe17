-- quick_acquire: the usual case of acquire: nobody waits, and the lock is free, or a reader joins
-- readers. It comes first in that script, because creating the functions of the other parts costs
-- the server as much as this part. They handle all other cases.
-- KEYS[1] .. KEYS[5], ARGV[1] .. ARGV[4] and Returns: those of acquire
do
  local lock, mark, counter, holders = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
  local expire, kind = tonumber(ARGV[2]), ARGV[4]
  local holder = redis.call('GET', lock)
  local is_simple = not holder or holder == '<readers>' and kind == 'r'
  -- Below 0: somebody has taken the expiry of the marker away, which the other parts mend.
  local remaining = is_simple and holder and redis.call('PTTL', lock) or 0
  if is_simple and remaining >= 0 and redis.call('LLEN', KEYS[4]) == 0 then
    local stored, time = redis.call('MGET', mark, counter), redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    -- MGET returns nothing for a key of another type; GET fails.
    local slot_last = tonumber(stored[1] or redis.call('GET', mark) or '0')
    local lock_last = tonumber(stored[2] or '0')
    local max_token = 9007199254740991
    if slot_last and slot_last < max_token and lock_last and lock_last < max_token
      and now <= max_token then
      local next_token = math.max(slot_last, lock_last) + 1
      local fencing_token, mark_life =
        math.max(next_token, now), 172800000 + math.max(0, next_token - now) / 1000
      local token_text = string.format('%.0f', fencing_token)
      -- The mark first, the lock last: a script that fails half-way is not rolled back. What is
      -- refused here is left to the other parts: at `maxmemory` they serve a reader that claims.
      if not redis.pcall('SET', mark, token_text, 'PX', string.format('%.0f', mark_life)).err then
        if stored[2] then
          -- The counter would be below this fencing token.
          redis.call('DEL', counter)
        end
        -- What is left of an older group; and the leases of readers that died, which would add up
        -- beside one that lives. One reader in 17 removes these, to save the others a call. The
        -- number is prime, so that no coarse clock always misses it.
        if not holder then
          redis.call('ZREMRANGEBYSCORE', holders, '-inf', '+inf')
        elseif now % 17 == 0 then
          redis.call('ZREMRANGEBYSCORE', holders, '-inf', string.format('%.0f', now))
        end
        -- An even end: the owner was not invited.
        redis.call('ZADD', holders, string.format('%.0f', now - now % 2 + expire * 1000), ARGV[1])
        -- Always set: a set of holders that was deleted by hand is new, and has no expiry.
        redis.call('PEXPIRE', holders, string.format('%.0f', math.max(remaining, expire)))
        if remaining < expire then
          redis.call('SET', lock, kind == 'r' and '<readers>' or '<permits>', 'PX', ARGV[2])
        end
        return {1, token_text, token_text, now}
      end
    end
  end
end

