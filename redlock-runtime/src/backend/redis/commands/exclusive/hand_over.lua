-- hand_over: the common head of the scripts that hand a lock to the first entry of its queue.
-- KEYS and ARGV are those of the script behind it; nothing here depends on them.
-- An entry of the queue: "<expire in ms> <life of the counter in ms> <fencing tokens> <channel> <owner>".
-- Channel "-": its process is not told, and asks now and then. "@<key>": it is told by a mailbox, the
-- list of that name. Expire "0": it wants to be told that the lock is free, and nothing else.
-- Returns nothing by itself. A release must not fail because of the queue: what it needs for that,
-- and an older user may be denied, is called by pcall.
local line_life = 60000
-- So long, in ms, has the next owner to claim the lock.
local claim_window = 1000
-- One hand-over in so many goes to the first entry though it cannot be told, and others behind it
-- can: it would sleep while it has the lock. A prime number, so that no clock keeps missing it.
local untold_share = 17
-- So many of them are passed over at most.
local most_passed_over = 16
-- So many messages lie in a mailbox at most. Whoever has fetched none of them is gone.
local most_messages = 1024
-- So long, in ms, does a mailbox last behind its last message.
local mailbox_life = 60000
-- So far, in microseconds, do fencing tokens that are reserved run ahead of the clock at most.
local lead = 10000
-- So long, in ms, does a mark last behind the time of its fencing token.
local mark_life = 172800000
-- Above it, numbers do not count in ones.
local last_token = 9007199254740991
-- So large is a number of an entry at most.
local most = 10000000000000

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function digits(number)
  return string.format('%.0f', number)
end

-- Can fencing tokens come behind what stands in a key? Then the last that was drawn, 0 if nothing
-- stands there.
local function last_drawn(text)
  local number = tonumber(text or '0')
  return number and number >= 0 and number < last_token and number
end

-- Draws up to `count` fencing tokens: behind the counter of the lock, or, where it is gone, behind
-- the mark, which is behind all of the slot. At least one; more only as far as they run ahead of the
-- clock by `lead`. With `used`, the last that was used of those until `reserved`: behind that one,
-- unless somebody has drawn since.
-- Returns the first and the last of them; or nil and what is wrong.
local function draw(mark, counter, count, life, used, reserved)
  local now, shown, highest = clock(), redis.pcall('GET', counter), redis.pcall('GET', mark)
  local of_slot = last_drawn(highest)
  local of_lock = not shown and of_slot or last_drawn(shown)
  if not of_slot or not of_lock then
    local reply, key = not of_slot and highest or shown, not of_slot and mark or counter
    return nil, reply.err or 'FENCE no fencing token is left behind ' .. key
  end
  local last = shown and shown == reserved and used or math.max(of_lock, used or 0)
  local first = math.max(last + 1, now)
  local last_one = math.min(first + count - 1, math.max(first, now + lead), last_token)
  local marked = math.max(of_slot, last_one)
  local marked_life = mark_life + math.max(0, marked - now) / 1000
  -- The mark first: a script that fails half-way is not rolled back.
  local failure = redis.pcall('SET', mark, digits(marked), 'PX', digits(marked_life)).err
    or redis.pcall('SET', counter, digits(last_one), 'PX', life).err
  if failure then
    return nil, failure
  end
  return digits(first), digits(last_one)
end

-- The entry of an owner, and how many stand before it.
local function find(line, owner)
  for position, entry in ipairs(redis.pcall('LRANGE', line, 0, -1)) do
    if string.sub(entry, -#owner - 1) == ' ' .. owner then
      return entry, position - 1
    end
  end
end

-- Tells whoever listens to a channel. How many there are; nil: this user may not tell.
-- A mailbox that cannot be used belongs to nobody who could be told.
local function tell(channel, message)
  if string.sub(channel, 1, 1) ~= '@' then
    local listeners = redis.pcall('PUBLISH', channel, message)
    return type(listeners) == 'number' and listeners or nil
  end
  local mailbox = string.sub(channel, 2)
  local length = redis.pcall('LLEN', mailbox)
  if type(length) ~= 'number' or length >= most_messages
    or type(redis.pcall('RPUSH', mailbox, message)) ~= 'number' then
    return 0
  end
  redis.pcall('PEXPIRE', mailbox, mailbox_life)
  return 1
end

-- The entry of the one who is to have the lock next, and how many stand before it; nil: nobody. Those
-- who cannot be told are passed over where somebody behind them can be, mostly.
local function next_in(line)
  local first, position = redis.pcall('LINDEX', line, 0), 0
  local entry = first
  while type(entry) == 'string' and string.match(entry, '^%d+ %d+ %d+ %- ') do
    if position == 0 and clock() % untold_share == 0 then
      return first, 0
    end
    position = position + 1
    entry = position <= most_passed_over and redis.pcall('LINDEX', line, position)
  end
  if type(entry) ~= 'string' then
    entry, position = first, 0
  end
  return type(entry) == 'string' and entry or nil, position
end

local function take_out(line, entry, position)
  if position == 0 then
    return redis.pcall('LPOP', line) == entry
  end
  return redis.pcall('LREM', line, 1, entry) == 1
end

-- Can a command or a fencing token do with it?
local function is_fit(number)
  number = tonumber(number)
  return number >= 1 and number <= most
end

-- but: an owner whose entry is taken out, and not handed the lock: it has it, or lets go of it.
-- used, reserved: as for draw, where that is known.
-- True: the lock has the next owner, and its process was told. False: nobody is there to have it;
-- the lock may have the name of somebody who is gone.
local function hand_over(lock, mark, counter, line, but, used, reserved)
  while true do
    local entry, position = next_in(line)
    if not entry then
      return false
    end
    local expire, life, count, channel, owner =
      string.match(entry, '^(%d+) (%d+) (%d+) (%S+) (.+)$')
    local listeners = 0
    if owner and expire == '0' then
      listeners = tell(channel, string.format('free %d ', #owner) .. owner .. lock) or 0
    elseif owner and owner ~= but and is_fit(expire) and is_fit(life) and is_fit(count) then
      local first, last_one = draw(mark, counter, count, life, used, reserved)
      if not first then
        return false
      end
      -- Nobody uses them if nobody listens.
      used, reserved = first - 1, last_one
      local lease = math.min(expire, claim_window)
      -- The lock last: a script that fails half-way is not rolled back.
      if redis.pcall('SET', lock, owner, 'PX', lease).err then
        return false
      end
      local call = string.format('%s %s %d %d ', first, last_one, lease, #owner)
      listeners = channel == '-' and 1 or tell(channel, call .. owner .. lock)
      if not listeners then
        return false
      end
    end
    local is_told = owner and listeners > 0
    local is_handed = is_told and expire ~= '0'
    if not take_out(line, entry, position) then
      redis.pcall('DEL', line)
      return is_handed
    end
    if is_told then
      return is_handed
    end
  end
end

