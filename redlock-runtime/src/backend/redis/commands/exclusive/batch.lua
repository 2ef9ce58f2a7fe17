-- batch: what several callers want at the same moment, each for a lock of its own: releases first,
-- then acquires. Only what is plain is done: the release of a lock that nobody waits for, the acquire
-- of a lock that is free and has no fencing counter, or that another owner has.
-- KEYS: of each release the lock and its queue, then of each acquire the lock, the fencing mark of
-- its hash slot and its fencing counter
-- ARGV[1] the number of releases, then the owner of each, then of each acquire its owner and expire
-- in ms
-- Returns a text and the refusals. The text is the time in us, if there are acquires, and a word for
-- each command: 1, released; +, granted with the time as fencing token, and with the next three; the
-- only fencing token of a granted lock; ?, the next of the refusals, which are what acquire.lua returns;
-- -, nothing was done, and the command has to be sent by itself. One text costs client and server less
-- than an answer for each.
-- No error is raised: what was done before it would be unknown.
local try = redis.pcall
local releases = tonumber(ARGV[1])
local words, refusals = {''}, {}
local function has_failed(reply)
  return type(reply) == 'table' and reply.err
end

if releases > 0 then
  local locks, freed, is_freed = {}, {}, {}
  for i = 1, releases do
    locks[i] = KEYS[2 * i - 1]
  end
  local holders = try('MGET', unpack(locks))
  for i = 1, releases do
    local is_plain = not has_failed(holders) and holders[i] == ARGV[i + 1]
      and not is_freed[locks[i]] and try('LLEN', KEYS[2 * i]) == 0
    words[i + 1] = is_plain and '1' or '-'
    if is_plain then
      freed[#freed + 1], is_freed[locks[i]] = locks[i], true
    end
  end
  if #freed > 0 and has_failed(try('DEL', unpack(freed))) then
    for i = 1, releases do
      words[i + 1] = '-'
    end
  end
end

local first = 2 * releases
local acquires = (#KEYS - first) / 3
if acquires == 0 then
  return {table.concat(words, ' ')}
end
local time, seen = try('TIME'), try('MGET', unpack(KEYS, first + 1))
if has_failed(time) or has_failed(seen) then
  for i = releases + 1, releases + acquires do
    words[i + 1] = '-'
  end
  return {table.concat(words, ' ')}
end
local now = time[1] .. string.format('%06d', time[2])
words[1] = now
-- What was drawn here, by mark, and which locks were granted: MGET has read all keys before.
local drawn, granted = {}, {}
-- The time as a number, and the last of the four fencing tokens that begin with it.
local micros = tonumber(now)
local last_of_time = string.format('%.0f', micros + 3)

-- Draws from a mark as acquire.lua does, and returns the word for it. The mark is written first. MGET
-- finds nothing in a key of another type, and GET fails.
local function draw(mark, last)
  last = drawn[mark] or last or try('GET', mark)
  if has_failed(last) then
    return false
  end
  last = tonumber(last or '0')
  if not (last and last < 9007199254740991) then
    return false
  end
  local word, highest, life = '+', last_of_time, '172800000'
  if last >= micros then
    highest = string.format('%.0f', last + 1)
    word, life = highest, string.format('%.0f', life + (last + 1 - micros) / 1000)
  end
  drawn[mark] = highest
  return not has_failed(try('SET', mark, highest, 'PX', life)) and word
end

for i = 1, acquires do
  local at = 3 * i - 2
  local lock, mark, holder = KEYS[first + at], KEYS[first + at + 1], seen[at]
  local owner, expire = ARGV[releases + 2 * i], ARGV[releases + 2 * i + 1]
  local word = '-'
  if holder and holder ~= owner then
    local left = try('PTTL', lock)
    if not has_failed(left) then
      word, refusals[#refusals + 1] = '?', {0, left, holder, now}
    end
  elseif not holder and not seen[at + 2] and not granted[lock] then
    local drawn_word = draw(mark, seen[at + 1])
    -- A key of another type stays as it is.
    local set = drawn_word and try('SET', lock, owner, 'PX', expire, 'NX')
    if set and not has_failed(set) then
      granted[lock] = true
      word = drawn_word
    end
  end
  words[releases + i + 1] = word
end
return {table.concat(words, ' '), unpack(refusals)}
