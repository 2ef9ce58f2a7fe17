-- acquire: grants a free lock, with the next fencing token. Idempotent per owner.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter
-- ARGV[1] owner, ARGV[2] expire in ms, ARGV[3] life of the counter in ms
-- Returns '<time>': granted, the fencing tokens are the time and the next three numbers;
-- '<fencing token> <time>': granted, with this token only; {0, remaining ms of the holder (-1: no
-- expiry), holder, time}: refused.
-- time: the server's, in microseconds since 1970. It stays text, and a grant is a single text,
-- because numbers and tables would cost as much as the rest of the script.
local lock, mark, counter, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local holder = redis.call('GET', lock)
if holder and holder ~= owner then
  return {0, redis.call('PTTL', lock), holder, now}
end
local stored = redis.call('MGET', mark, counter)
if holder and stored[2] then
  -- The owner has reserved fencing tokens: it gets the last of them.
  redis.call('PEXPIRE', lock, ARGV[2])
  redis.call('PEXPIRE', counter, ARGV[3])
  return stored[2] .. ' ' .. now
end
-- MGET returns nothing for a key of another type; GET fails.
local mark_text = stored[1] or redis.call('GET', mark) or '0'
local micros, slot_last = tonumber(now), tonumber(mark_text)
local lock_last, largest = tonumber(stored[2] or '0'), 9007199254740990
local is_mark_good = slot_last and slot_last <= largest
local is_counter_good = lock_last and lock_last <= largest
if not (is_mark_good and is_counter_good) or micros + 2 > largest then
  local key = is_mark_good and not is_counter_good and counter or mark
  return redis.error_reply('FENCE no fencing token is left behind ' .. key)
end
local next_token = math.max(slot_last, lock_last) + 1
local reply, new_mark, mark_life = now, time[1] .. string.format('%06d', time[2] + 3), '172800000'
if next_token > micros then
  new_mark, mark_life = string.format('%.0f', next_token),
    string.format('%.0f', mark_life + (next_token - micros) / 1000)
  reply = new_mark .. ' ' .. now
elseif #new_mark > #now then
  -- The second ends within these microseconds.
  new_mark = string.format('%.0f', micros + 3)
end
-- The mark first, the lock last: a script that fails half-way is not rolled back. Whoever drew
-- first in this hour has set the expiry of the mark, which costs more than the value.
local has_drawn = next_token <= micros and slot_last >= micros - micros % 3600000000
if not (has_drawn and #mark_text == #new_mark
  and redis.pcall('SETRANGE', mark, '0', new_mark) == #new_mark) then
  redis.call('SET', mark, new_mark, 'PX', mark_life)
end
if stored[2] then
  -- The counter would be below this fencing token.
  redis.call('DEL', counter)
end
redis.call('SET', lock, owner, 'PX', ARGV[2])
return reply
