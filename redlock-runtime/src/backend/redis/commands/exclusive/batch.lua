-- batch: carries out releases, then acquires, that several callers sent at the same moment, each
-- for a lock of its own. It serves only simple cases: the release of a lock that nobody waits for,
-- and the acquire of a lock that is taken, or that is free and has no fencing counter.
-- KEYS: the locks of all releases, their queues, then of each acquire the lock, the fencing mark of
-- its hash slot and its fencing counter
-- ARGV[1] the number of releases, then the owner of each release, then the owner and the expire
-- in ms of each acquire
-- Returns a text, then the refusals. The text starts with the time in us, if there are acquires; a
-- word for each command follows. 1: released; +: granted, the fencing tokens are the time and the
-- next three numbers; a number: granted, with this fencing token only; ?: refused, with the next of
-- the refusals, which are replies of acquire.lua; -: nothing was done, and the client has to send
-- the command by itself. One text costs client and server less than a reply for each command.
-- The script raises no error: the client would not know what was done before it.
local try = redis.pcall
local release_count = tonumber(ARGV[1])
local words, refusals = {''}, {}
local function has_failed(reply)
  return type(reply) == 'table' and reply.err
end

if release_count > 0 then
  local freed, is_freed = {}, {}
  local holders = try('MGET', unpack(KEYS, 1, release_count))
  local has_no_waiter = try('EXISTS', unpack(KEYS, release_count + 1, 2 * release_count)) == 0
  for i = 1, release_count do
    local lock = KEYS[i]
    local is_plain = holders[i] == ARGV[i + 1] and not is_freed[lock]
      and (has_no_waiter or try('LLEN', KEYS[release_count + i]) == 0)
    words[i + 1] = is_plain and '1' or '-'
    if is_plain then
      freed[#freed + 1], is_freed[lock] = lock, true
    end
  end
  if #freed > 0 and has_failed(try('DEL', unpack(freed))) then
    for i = 1, release_count do
      words[i + 1] = '-'
    end
  end
end

local release_keys = 2 * release_count
local acquire_count = (#KEYS - release_keys) / 3
if acquire_count == 0 then
  return {table.concat(words, ' ')}
end
local time, stored = try('TIME'), try('MGET', unpack(KEYS, release_keys + 1))
if has_failed(time) or has_failed(stored) then
  for i = release_count + 1, release_count + acquire_count do
    words[i + 1] = '-'
  end
  return {table.concat(words, ' ')}
end
local now = time[1] .. string.sub('00000' .. time[2], -6)
words[1] = now
-- What this script has changed since MGET read all keys: the new value of each mark, and the
-- granted locks.
local drawn_marks, granted = {}, {}
local micros = tonumber(now)
-- The last of the four fencing tokens that begin with the time.
local last_of_four = string.format('%.0f', micros + 3)
local hour_start = micros - micros % 3600000000

-- Draws a fencing token from a mark as acquire.lua does, and writes the mark. Returns the word for
-- the grant, or false. MGET returns nothing for a key of another type; GET fails.
local function draw(mark, stored_mark)
  local text = drawn_marks[mark] or stored_mark or try('GET', mark) or '0'
  local last = tonumber(text)
  if not (last and last < 9007199254740991) or micros + 3 > 9007199254740991 then
    return false
  end
  local word, new_mark, mark_life = '+', last_of_four, '172800000'
  if last >= micros then
    new_mark = string.format('%.0f', last + 1)
    word, mark_life = new_mark, string.format('%.0f', mark_life + (last + 1 - micros) / 1000)
  end
  drawn_marks[mark] = new_mark
  -- Whoever drew first in this hour has set the expiry, which costs more than the value.
  local is_written = last < micros and last >= hour_start and #text == #new_mark
    and try('SETRANGE', mark, '0', new_mark) == #new_mark
  return (is_written or try('SET', mark, new_mark, 'PX', mark_life).ok) and word
end

for i = 1, acquire_count do
  local index = 3 * i - 2
  local lock, mark, holder =
    KEYS[release_keys + index], KEYS[release_keys + index + 1], stored[index]
  local owner, expire = ARGV[release_count + 2 * i], ARGV[release_count + 2 * i + 1]
  local word = '-'
  if holder and holder ~= owner then
    local remaining = try('PTTL', lock)
    if not has_failed(remaining) then
      word, refusals[#refusals + 1] = '?', {0, remaining, holder, now}
    end
  elseif not holder and not stored[index + 2] and not granted[lock] then
    local grant_word = draw(mark, stored[index + 1])
    -- NX: a key of another type stays as it is.
    local was_set = grant_word and try('SET', lock, owner, 'PX', expire, 'NX')
    if was_set and was_set.ok then
      word, granted[lock] = grant_word, true
    end
  end
  words[release_count + i + 1] = word
end
return {table.concat(words, ' '), unpack(refusals)}
