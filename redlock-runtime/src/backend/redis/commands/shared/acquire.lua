-- acquire: enters an owner among the holders of a lock of a shared kind, if there is room and nobody
-- of another kind waits. Idempotent per owner, with a new fencing token.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue, KEYS[5] its holders
-- ARGV[1] owner, ARGV[2] expire in ms, ARGV[3] life of the counter in ms, ARGV[4] 'r' or 'p<n>'
-- Returns {1, fencing token, the same, time} or {0, remaining ms of the holder (-1: no expiry),
-- holder, time}
local lock, mark, counter, line, holders = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, expire, now = ARGV[1], tonumber(ARGV[2]), clock()

-- Nobody waits, and the lock is free, or a reader comes to readers: this is what most calls find. It
-- costs the server half of the general way below, which decides everything else.
local holder = redis.call('GET', lock)
local is_simple = not holder or holder == readers and ARGV[4] == 'r'
if is_simple and redis.call('LLEN', line) == 0 then
  local last = redis.call('MGET', mark, counter)
  -- MGET finds nothing in a key of another type, and GET fails.
  local of_slot = tonumber(last[1] or redis.call('GET', mark) or '0')
  local of_lock = tonumber(last[2] or '0')
  local next = of_slot and of_lock and math.max(of_slot, of_lock) + 1
  if next and next <= last_token then
    local token, life = math.max(next, now), mark_life + math.max(0, next - now) / 1000
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
    redis.call('ZADD', holders, string.format('%.0f', now + expire * 1000), owner)
    if not holder or redis.call('PTTL', lock) < expire then
      redis.call('PEXPIRE', holders, expire)
      redis.call('SET', lock, ARGV[4] == 'r' and readers or permits, 'PX', expire)
    end
    return {1, first, first, now}
  end
end

local shared = shared_lock(lock, mark, counter, line, ARGV[4])
if shared.has(owner) or shared.may_enter() then
  return shared.join(owner, ARGV[2], ARGV[3])
end
local remaining, shown = shared.refusal()
return {0, remaining, shown, now}
