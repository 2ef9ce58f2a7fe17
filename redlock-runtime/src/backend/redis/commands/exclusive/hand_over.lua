-- hand_over: the common head of the scripts that hand a lock to the first entry of its queue.
-- KEYS and ARGV are those of the script behind it; nothing here depends on them. Returns nothing.
-- An entry of the queue: "<expire in ms> <life of the counter in ms> <fencing tokens> <channel> <owner>".
-- In the place of fencing tokens, "r" stands for a reader, and "p<n>" for one of n permits at most.
-- Channel "-": its process is not told, and asks now and then. "@<key>": it is told by a mailbox, the
-- list of that name. Expire "0": it wants to be told that the lock is free, and nothing else; its
-- second number is the time in ms until which it stays when it was told, or 0.
-- A release must not fail because of the queue: what it needs for that, and an older user may be
-- denied, is called by pcall.
local line_life = 60000
-- So long, in ms, has the next owner to claim the lock.
local claim_window = 1000
-- So far, in microseconds, do fencing tokens that are reserved run ahead of the clock at most.
local lead = 10000
-- So long, in ms, does a mark last behind the time of its fencing token.
local mark_life = 172800000
-- Above it, numbers do not count in ones.
local last_token = 9007199254740991
-- What stands in the lock of a shared kind, in the place of an owner.
local readers, permits = '<readers>', '<permits>'

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- In holders.lua.
local group_of

-- What can be done with the queue of a lock. These functions are made when they are needed: making
-- them costs the server more than the release of a lock for which nobody waits. The same is true of
-- each constant outside of them that they use.
-- sender: an owner of the client that has sent the command.
local function queue_of(lock, mark, counter, line, sender)
  -- One hand-over in so many goes to the first entry though it cannot be told, and others behind
  -- it can: it would sleep while it has the lock. A prime number, so that no clock keeps missing it.
  local untold_share = 17
  -- So many of them are passed over at most.
  local most_passed_over = 16
  -- So many messages lie in a mailbox at most. Whoever has fetched none of them is gone.
  local most_messages = 1024
  -- With so many of them, it is asked no more whether somebody is there.
  local most_unread = 16
  -- So long, in ms, does a mailbox last behind its last message.
  local mailbox_life = 60000
  -- So many entries are read at a time where one is looked for.
  local most_read = 64
  -- So large is a number of an entry at most.
  local most = 10000000000000
  local queue = {}

  local function digits(number)
    return string.format('%.0f', number)
  end
  queue.digits = digits

  -- Can fencing tokens come behind what stands in a key? Then the last that was drawn, 0 if nothing
  -- stands there.
  local function last_drawn(text)
    local number = tonumber(text or '0')
    return number and number >= 0 and number < last_token and number
  end

  -- Draws up to `count` fencing tokens: behind the counter of the lock, or, where it is gone, behind
  -- the mark, which is behind all of the slot. At least `needed`, or one; more only as far as they
  -- run ahead of the clock by `lead`. With `used`, the last that was used of those until `reserved`:
  -- behind that one, unless somebody has drawn since.
  -- Returns the first and the last of them; or nil and what is wrong.
  function queue.draw(count, life, used, reserved, needed)
    local now, shown, highest = clock(), redis.pcall('GET', counter), redis.pcall('GET', mark)
    local of_slot = last_drawn(highest)
    local of_lock = not shown and of_slot or last_drawn(shown)
    if not of_slot or not of_lock then
      local reply, key = not of_slot and highest or shown, not of_slot and mark or counter
      return nil, reply.err or 'FENCE no fencing token is left behind ' .. key
    end
    local last = shown and shown == reserved and used or math.max(of_lock, used or 0)
    local first = math.max(last + 1, now)
    local least = first + (needed or 1) - 1
    if least > last_token then
      return nil, 'FENCE no fencing token is left behind ' .. mark
    end
    local last_one = math.min(first + count - 1, math.max(least, now + lead), last_token)
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

  -- The words of an entry; nil: it has another form.
  function queue.parse(text)
    local expire, life, tokens, channel, owner =
      string.match(text, '^(%d+) (%d+) (%S+) (%S+) (.+)$')
    if not owner then
      return nil
    end
    local kind = string.sub(tokens, 1, 1)
    local marker = kind == 'r' and readers or kind == 'p' and permits or nil
    return {
      expire = expire, life = life, tokens = tokens, channel = channel, owner = owner,
      marker = marker, is_hint = expire == '0',
    }
  end

  -- Has a hint stayed for as long as it may?
  function queue.is_over(hint)
    return hint.life ~= '0' and clock() >= hint.life * 1000
  end

  -- The entry of an owner among those from `first` to `last`, and how many stand before it.
  local function find_within(owner, first, last)
    local entries = redis.pcall('LRANGE', line, first, last)
    for place = #entries, 1, -1 do
      if string.sub(entries[place], -#owner - 1) == ' ' .. owner then
        return entries[place], first + place - 1
      end
    end
  end

  -- The entry of an owner, and how many stand before it. most_before: mostly not more than so many do,
  -- and few less, so that few entries are read.
  function queue.find(owner, most_before)
    local length = redis.pcall('LLEN', line)
    local last = math.min(tonumber(most_before) or -1, type(length) == 'number' and length - 1 or -1)
    while last >= 0 do
      local first = math.max(0, last - most_read + 1)
      local entry, before = find_within(owner, first, last)
      if entry then
        return entry, before
      end
      last = first - 1
    end
    return find_within(owner, 0, -1)
  end

  -- Takes the entry of an owner out. Those that stood behind it are let in where a group has the lock
  -- that they may join.
  function queue.leave(owner)
    local entry = queue.find(owner)
    if not entry then
      return
    end
    redis.pcall('LREM', line, 1, entry)
    local holder = redis.pcall('GET', lock)
    if holder == readers or holder == permits then
      queue.group().admit()
    end
  end

  -- Tells whoever listens to a channel. How many there are; nil: this user may not tell.
  -- A mailbox that cannot be used belongs to nobody who could be told.
  function queue.tell(channel, message)
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

  -- Does somebody wait for what an entry asks for?
  function queue.is_there(entry)
    if not entry or entry.is_hint and queue.is_over(entry) then
      return false
    end
    if entry.channel == '-' then
      return true
    end
    if string.sub(entry.channel, 1, 1) == '@' then
      local unread = redis.pcall('LLEN', string.sub(entry.channel, 2))
      if type(unread) == 'number' and unread >= most_unread then
        return false
      end
    end
    -- What counts is whether somebody hears it. A process whose caller has gone takes the entry out.
    return queue.tell_of_lock(entry, 'ping') ~= 0
  end

  -- What the process of an entry is told about the lock.
  function queue.message_of(entry, words)
    return words .. ' ' .. #entry.owner .. ' ' .. entry.owner .. lock
  end

  -- Tells the process of an entry about the lock.
  function queue.tell_of_lock(entry, words)
    return queue.tell(entry.channel, queue.message_of(entry, words))
  end

  -- The entry of the one who is to have the lock next, and how many stand before it; nil: nobody.
  -- Those who cannot be told are passed over where somebody behind them can be, mostly.
  local function next_in()
    local first, position = redis.pcall('LINDEX', line, 0), 0
    local entry = first
    while type(entry) == 'string' and string.match(entry, '^%d+ %d+ %S+ %- ') do
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

  -- Takes an entry out; a queue that has not got it is deleted.
  function queue.take_out(entry, position)
    local is_out
    if position == 0 then
      is_out = redis.pcall('LPOP', line) == entry
    else
      is_out = redis.pcall('LREM', line, 1, entry) == 1
    end
    if not is_out then
      redis.pcall('DEL', line)
    end
    return is_out
  end

  local function is_number(text)
    local number = tonumber(text)
    return number and number >= 1 and number <= most
  end

  -- Can commands and fencing tokens do with an entry?
  function queue.is_fit(entry)
    local is_served = entry.tokens == 'r' or is_number(string.match(entry.tokens, '^p?(%d+)$'))
    return is_served and is_number(entry.expire) and is_number(entry.life)
  end

  -- Gives a lock of one holder to the owner of an entry for the claim window, and tells its process.
  -- used, reserved: as for draw, where that is known.
  -- Returns how many heard it, and the same two for the next to draw; nil: the lock cannot be given.
  local function give(entry, used, reserved)
    local first, last_one = queue.draw(entry.tokens, entry.life, used, reserved)
    if not first then
      return nil
    end
    local lease = math.min(entry.expire, claim_window)
    -- The lock last: a script that fails half-way is not rolled back.
    if redis.pcall('SET', lock, entry.owner, 'PX', lease).err then
      return nil
    end
    local words = string.format('%s %s %d', first, last_one, lease)
    local listeners = entry.channel == '-' and 1 or queue.tell_of_lock(entry, words)
    -- Nobody uses them if nobody listens.
    return listeners, first - 1, last_one
  end

  -- What the locks of shared kinds need besides: holders.lua.
  local group
  function queue.group()
    group = group or group_of(queue, lock, line, sender)
    return group
  end

  -- Who has the lock, for those who wait: of a group, how many there are.
  function queue.shown(holder)
    local is_group = holder == readers or holder == permits
    return is_group and holder .. ' ' .. queue.group().count() or holder
  end

  -- but: an owner whose entry is taken out, and not handed the lock: it has it, or lets go of it.
  -- used, reserved: as for draw, where that is known.
  -- True: the lock has the next owner, or a group of them, and their processes were told. False:
  -- nobody is there to have it; the lock may have the name of somebody who is gone.
  function queue.hand_over(but, used, reserved)
    while true do
      local text, position = next_in()
      if not text then
        return false
      end
      local entry, listeners, is_taken_out = queue.parse(text), 0, false
      if entry and entry.is_hint then
        listeners = not queue.is_over(entry) and queue.tell_of_lock(entry, 'free') or 0
        if listeners > 0 and entry.life ~= '0' then
          return false
        end
      elseif entry and entry.owner ~= but and queue.is_fit(entry) then
        if entry.marker and position == 0 then
          listeners, used, reserved = queue.group().admit(entry.marker, used, reserved)
          is_taken_out = true
        elseif entry.marker and queue.group().end_leases() then
          -- Perhaps it is among those that have left the queue.
          is_taken_out = true
        elseif entry.marker then
          listeners, used, reserved =
            queue.group().let_in(entry.marker, {entry}, used, reserved)
        else
          listeners, used, reserved = give(entry, used, reserved)
        end
        if not listeners then
          return false
        end
      end
      local is_handed = listeners > 0 and not entry.is_hint
      if not is_taken_out and not queue.take_out(text, position) then
        return is_handed
      end
      if is_handed then
        if entry.marker and position > 0 then
          queue.group().admit()
        end
        return true
      end
      -- The lock is free for whoever was told so. Readers do not keep each other out.
      if listeners > 0 and not entry.marker then
        return false
      end
    end
  end

  return queue
end

