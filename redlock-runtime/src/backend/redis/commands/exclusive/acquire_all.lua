-- acquire_all: grants several free locks, all or none, with one fencing token that is above the
-- last of each lock. Idempotent per owners.
-- KEYS[3i-2] the i-th lock, KEYS[3i-1] the fencing mark of its hash slot, KEYS[3i] its fencing
-- counter
-- ARGV[1] expire in ms, ARGV[i+1] owner of the i-th lock
-- Returns '<fencing token> <time>': granted; {0, remaining ms of the holder (-1: no expiry),
-- holder, time, i}: the i-th lock is taken; time: the server's, in microseconds since 1970, as text
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
local micros, max_token = tonumber(now), 9007199254740991
local helpers = {}
for i = 1, #KEYS, 3 do
  local holder = redis.call('GET', KEYS[i])
  if holder and holder ~= ARGV[(i + 5) / 3] then
    return {0, redis.call('PTTL', KEYS[i]), holder, now, (i + 2) / 3}
  end
  helpers[#helpers + 1], helpers[#helpers + 2] = KEYS[i + 1], KEYS[i + 2]
end
local stored, next_token, marks, counters = redis.call('MGET', unpack(helpers)), 0, {}, {}
for i, key in ipairs(helpers) do
  local text, is_mark = stored[i], i % 2 == 1
  if is_mark and not marks[key] then
    marks[key], marks[#marks + 1] = true, key
    -- MGET returns nothing for a key of another type; GET fails.
    text = text or redis.call('GET', key)
  elseif not is_mark and text then
    counters[#counters + 1] = key
  end
  local last = tonumber(text or '0')
  if not (last and last < max_token) or micros > max_token then
    return redis.error_reply('FENCE no fencing token is left behind ' .. key)
  end
  next_token = math.max(next_token, last + 1)
end
local granted_token, mark_life = now, 172800000
if next_token > micros then
  granted_token, mark_life = string.format('%.0f', next_token),
    mark_life + (next_token - micros) / 1000
end
mark_life = string.format('%.0f', mark_life)
-- The marks first, the locks last: a script that fails half-way is not rolled back.
for _, mark in ipairs(marks) do
  redis.call('SET', mark, granted_token, 'PX', mark_life)
end
for _, counter in ipairs(counters) do
  -- The counter would be below this fencing token.
  redis.call('DEL', counter)
end
for i = 1, #KEYS, 3 do
  redis.call('SET', KEYS[i], ARGV[(i + 5) / 3], 'PX', ARGV[1])
end
return granted_token .. ' ' .. now
