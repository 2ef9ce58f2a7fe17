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
-- One hand-over in so many goes to the first entry though it cannot be told, and others behind it
-- can: it would sleep while it has the lock. A prime number, so that no clock keeps missing it.
local untold_share = 17
-- So many of them are passed over at most.
local most_passed_over = 16
-- So many messages lie in a mailbox at most. Whoever has fetched none of them is gone.
local most_messages = 1024
-- With so many of them, it is asked no more whether somebody is there.
local most_unread = 16
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
-- What stands in the lock of a shared kind, in the place of an owner.
local readers, permits = '<readers>', '<permits>'

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- What can be done with the queue of a lock. These functions are made when they are needed: making
-- them costs the server more than the release of a lock for which nobody waits.
local function queue_of(lock, mark, counter, line)
  local queue = {}

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
  -- the mark, which is behind all of the slot. At least one; more only as far as they run ahead of
  -- the clock by `lead`. With `used`, the last that was used of those until `reserved`: behind that
  -- one, unless somebody has drawn since.
  -- Returns the first and the last of them; or nil and what is wrong.
  function queue.draw(count, life, used, reserved)
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

  -- The entry of an owner, and how many stand before it.
  function queue.find(owner)
    for position, entry in ipairs(redis.pcall('LRANGE', line, 0, -1)) do
      if string.sub(entry, -#owner - 1) == ' ' .. owner then
        return entry, position - 1
      end
    end
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
    -- Nobody does anything with this message. What counts is whether somebody hears it.
    return queue.tell(entry.channel, 'ping') ~= 0
  end

  -- Tells the process of an entry about the lock.
  function queue.tell_of_lock(entry, words)
    local message = string.format('%s %d ', words, #entry.owner) .. entry.owner .. lock
    return queue.tell(entry.channel, message)
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
  local function take_out(entry, position)
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

  -- Can commands and fencing tokens do with an entry?
  local function is_fit(entry)
    local numbers = {entry.expire, entry.life, entry.marker and 1 or entry.tokens}
    for _, text in ipairs(numbers) do
      local number = tonumber(text)
      if not number or number < 1 or number > most then
        return false
      end
    end
    return true
  end

  -- Gives the lock to the owner of an entry for the claim window, and tells its process.
  -- used, reserved: as for draw, where that is known.
  -- Returns how many heard it, and the same two for the next to draw; nil: the lock cannot be given.
  local function give(entry, used, reserved)
    local owner, marker = entry.owner, entry.marker
    local count = marker and 1 or entry.tokens
    local first, last_one = queue.draw(count, entry.life, used, reserved)
    if not first then
      return nil
    end
    local lease, failure = math.min(entry.expire, claim_window), nil
    if marker then
      failure = queue.group().enter(marker, owner, lease)
    else
      -- The lock last: a script that fails half-way is not rolled back.
      failure = redis.pcall('SET', lock, owner, 'PX', lease).err
    end
    if failure then
      return nil
    end
    local words = string.format('%s %s %d', first, last_one, lease)
    local listeners = entry.channel == '-' and 1 or queue.tell_of_lock(entry, words)
    if marker and (listeners or 0) == 0 then
      queue.group().leave(owner)
    end
    -- Nobody uses them if nobody listens.
    return listeners, first - 1, last_one
  end

  -- What the locks of shared kinds need besides.
  local group
  function queue.group()
    if group then
      return group
    end
    group = {}
    -- Those who hold the lock: owners, and the ends of their leases, in microseconds since 1970.
    local holders = string.sub(line, 1, -6) .. 'holders'

    -- Is there room beside the holders, and `invited` others? Whoever asks for a permit brings the
    -- largest number of permits.
    function group.has_room(tokens, invited)
      local permits = tonumber(string.sub(tokens, 2))
      if not permits then
        return tokens == 'r'
      end
      redis.pcall('ZREMRANGEBYSCORE', holders, '-inf', digits(clock()))
      local count = redis.pcall('ZCARD', holders)
      return type(count) == 'number' and count + invited < permits
    end

    -- Makes an owner one of the holders, for a lease in ms. The first of a group removes what is left
    -- of an older one. The marker lasts as long as the last of the leases.
    -- Returns what is wrong, if anything.
    function group.enter(marker, owner, lease)
      local left = -1
      if redis.call('GET', lock) == marker then
        left = redis.call('PTTL', lock)
      else
        -- pcall: what is no set of holders is left alone, and told.
        local cleared = redis.pcall('ZREMRANGEBYSCORE', holders, '-inf', '+inf')
        if type(cleared) ~= 'number' then
          return cleared.err
        end
      end
      local added = redis.pcall('ZADD', holders, digits(clock() + lease * 1000), owner)
      if type(added) ~= 'number' then
        return added.err
      end
      redis.pcall('PEXPIRE', holders, digits(math.max(left, lease)))
      -- The lock last: a script that fails half-way is not rolled back.
      return left < tonumber(lease) and redis.pcall('SET', lock, marker, 'PX', lease).err
    end

    function group.leave(owner)
      redis.pcall('ZREM', holders, owner)
    end

    -- When does the lease of an owner end? nil: it has none.
    function group.ends(owner)
      local ends = redis.pcall('ZSCORE', holders, owner)
      return type(ends) == 'string' and tonumber(ends) or nil
    end

    -- The rest of the first lease to end, in ms.
    function group.first_end()
      local first = redis.pcall('ZRANGE', holders, 0, 0, 'WITHSCORES')[2]
      return first and math.max(0, math.ceil((first - clock()) / 1000))
    end

    function group.count()
      local count = redis.pcall('ZCOUNT', holders, '(' .. digits(clock()), '+inf')
      return type(count) == 'number' and count or 0
    end

    -- Lets in those at the head of the queue for whom there is room beside the holders.
    function group.admit()
      local marker, invited = redis.pcall('GET', lock), 0
      while true do
        local text = redis.pcall('LINDEX', line, 0)
        local entry = type(text) == 'string' and queue.parse(text)
        if not entry then
          return
        end
        -- A hint that is over keeps nobody out.
        if not (entry.is_hint and queue.is_over(entry)) then
          if entry.marker ~= marker or not group.has_room(entry.tokens, invited) then
            return
          end
          if entry.is_hint then
            invited = invited + math.min(queue.tell_of_lock(entry, 'free') or 0, 1)
          elseif is_fit(entry) and not give(entry) then
            return
          end
        end
        if not take_out(text, 0) then
          return
        end
      end
    end

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
      local entry, listeners = queue.parse(text), 0
      if entry and entry.is_hint then
        listeners = not queue.is_over(entry) and queue.tell_of_lock(entry, 'free') or 0
        if listeners > 0 and entry.life ~= '0' then
          return false
        end
      elseif entry and entry.owner ~= but and is_fit(entry) then
        listeners, used, reserved = give(entry, used, reserved)
        if not listeners then
          return false
        end
      end
      local is_handed = listeners > 0 and not entry.is_hint
      if not take_out(text, position) then
        return is_handed
      end
      if is_handed then
        if entry.marker then
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

