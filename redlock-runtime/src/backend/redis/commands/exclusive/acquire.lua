-- acquire: takes a free lock, with the next fencing token. Idempotent per owner.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter
-- ARGV[1] owner, ARGV[2] expire in ms, ARGV[3] life of the counter in ms
-- Returns '<time>': granted, with the time as fencing token, and with the next three; '<fencing token>
-- <time>': granted with this one; {0, remaining ms of the holder (-1: no expiry), holder, time}.
-- time: the server's, in microseconds since 1970. It stays text, and what is granted is one text:
-- numbers and tables would cost as much as the rest.
local lock, mark, counter, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
local holder = redis.call('GET', lock)
if holder and holder ~= owner then
  return {0, redis.call('PTTL', lock), holder, now}
end
local last = redis.call('MGET', mark, counter)
if holder and last[2] then
  -- It has fencing tokens that were reserved: the last of them.
  redis.call('PEXPIRE', lock, ARGV[2])
  redis.call('PEXPIRE', counter, ARGV[3])
  return last[2] .. ' ' .. now
end
-- MGET finds nothing in a key of another type, and GET fails.
local of_slot = tonumber(last[1] or redis.call('GET', mark) or '0')
local of_lock = tonumber(last[2] or '0')
local function is_followed(number)
  return number and number < 9007199254740991
end
if not is_followed(of_slot) or not is_followed(of_lock) then
  local key = is_followed(of_slot) and counter or mark
  return redis.error_reply('FENCE no fencing token is left behind ' .. key)
end
local next, micros = math.max(of_slot, of_lock) + 1, tonumber(now)
local granted, highest, life = now, string.format('%.0f', micros + 3), '172800000'
if next > micros then
  highest, life = string.format('%.0f', next), string.format('%.0f', life + (next - micros) / 1000)
  granted = highest .. ' ' .. now
end
-- The mark first, the lock last: a script that fails half-way is not rolled back.
redis.call('SET', mark, highest, 'PX', life)
if last[2] then
  -- It would be below this fencing token.
  redis.call('DEL', counter)
end
redis.call('SET', lock, owner, 'PX', ARGV[2])
return granted
