-- hand_over: the functions that hand a lock to the first entry of its queue, ahead of the scripts
-- that use them.
-- KEYS and ARGV are those of the script after it; nothing here depends on them. Returns nothing.
-- An entry of the queue has this form:
--   "<expire in ms> <life of the counter in ms> <fencing tokens> <channel> <owner>"
-- In place of the number of fencing tokens, "r" stands for a reader, and "p<n>" for one of n
-- permits. Channel "-": the process gets no signals, and looks now and then. Channel "@<key>": its
-- signals go to a mailbox, the list of that name. Expire "0": a release hint, whose process is told
-- that the lock is free, and gets nothing else; its second number is the time (ms since 1970) until
-- which the entry stays after that signal, or 0.
-- An entry stands twice in the queue where a client library has sent its command again by itself.
-- An owner that leaves the queue, or is granted the lock by a look, removes both.
-- A release must not fail because its user may not use the queue: what that needs is a pcall.

-- How long a queue lasts after the last command of a waiter (ms).
local queue_life = 60000
-- The next owner has to claim the lock within this time (ms).
local claim_window = 1000
-- Reserved fencing tokens are ahead of the clock by at most this much (us).
local max_lead = 10000
-- How long a mark outlives the time of its fencing token (ms).
local mark_life = 172800000
-- The largest fencing token: the largest integer that a Lua number holds exactly.
local max_token = 9007199254740991
-- What a lock of a shared kind holds in place of an owner.
local readers_marker, permits_marker = '<readers>', '<permits>'

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Defined in holders.lua.
local group_of

-- The functions for the queue of a lock. They are created when they are needed: creating them costs
-- the server more than the release of a lock for which nobody waits. Each constant that they
-- capture from outside adds to that cost.
-- sender: an owner of the client that sent the command.
local function queue_of(lock, mark, counter, queue_key, sender)
  -- A waiter without a channel notices a hand-over late, so others are preferred. One hand-over in
  -- 17 still goes to it. The number is prime, so that no coarse clock always misses it.
  local no_channel_share = 17
  -- At most this many waiters without a channel are passed over.
  local max_passed_over = 16
  -- A look removes at most this many entries of processes that are gone.
  local max_dropped = 16
  -- A mailbox holds at most this many messages. A client that fetches none of them is gone.
  local max_messages = 1024
  -- A mailbox with this many gets no further one that only has a waiter look earlier.
  local max_looks = 8
  -- How long a mailbox lasts after its last message (ms).
  local mailbox_life = 60000
  -- A search reads this many entries at a time.
  local search_batch = 64
  -- The largest number that is valid in an entry.
  local max_number = 10000000000000
  local queue = {}

  local function digits(number)
    return string.format('%.0f', number)
  end
  queue.digits = digits

  -- The last fencing token that was drawn, from the text of a mark or counter; 0 if there is no
  -- text; nil or false if no fencing token can follow it.
  local function last_drawn(text)
    local last = tonumber(text or '0')
    return last and last >= 0 and last < max_token and last
  end

  -- Draws up to `count` fencing tokens after the counter of the lock or, if there is none, after
  -- the mark, which is never below a token of the slot. Draws at least `needed` (or one); more only
  -- up to `max_lead` ahead of the clock. The counter lasts for `life` ms. If nobody has drawn since
  -- `last_reserved`, draws after `last_used` instead: the tokens between them are unused.
  -- Returns the first and the last token; or nil and an error message.
  function queue.draw(count, life, last_used, last_reserved, needed)
    local now, counter_text, mark_text =
      clock(), redis.pcall('GET', counter), redis.pcall('GET', mark)
    local slot_last = last_drawn(mark_text)
    local lock_last = not counter_text and slot_last or last_drawn(counter_text)
    if not slot_last or not lock_last then
      local reply, key =
        not slot_last and mark_text or counter_text, not slot_last and mark or counter
      return nil, reply.err or 'FENCE no fencing token is left behind ' .. key
    end
    local previous = counter_text and counter_text == last_reserved and last_used
      or math.max(lock_last, last_used or 0)
    local first = math.max(previous + 1, now)
    local min_last = first + ((needed or 1) - 1)
    if min_last > max_token then
      return nil, 'FENCE no fencing token is left behind ' .. mark
    end
    local last = math.min(first + count - 1, math.max(min_last, now + max_lead), max_token)
    local new_mark = math.max(slot_last, last)
    local new_mark_life = mark_life + math.max(0, new_mark - now) / 1000
    -- The mark first: a script that fails half-way is not rolled back.
    local failure = redis.pcall('SET', mark, digits(new_mark), 'PX', digits(new_mark_life)).err
      or redis.pcall('SET', counter, digits(last), 'PX', life).err
    if failure then
      return nil, failure
    end
    return digits(first), digits(last)
  end

  -- The fields of an entry; nil if the text has another form.
  function queue.parse(text)
    local expire, life, tokens, channel, owner =
      string.match(text, '^(%d+) (%d+) (%S+) (%S+) (.+)$')
    if not owner then
      return nil
    end
    local letter = string.sub(tokens, 1, 1)
    local marker = letter == 'r' and readers_marker or letter == 'p' and permits_marker or nil
    return {
      expire = expire, life = life, tokens = tokens, channel = channel, owner = owner,
      marker = marker, is_hint = expire == '0',
    }
  end

  -- Is the time over for which a hint stays in the queue? A clock that was set back leaves more
  -- than the two seconds of release_hint.lua.
  function queue.is_expired(hint)
    local left = hint.life ~= '0' and hint.life * 1000 - clock()
    return left and (left <= 0 or left > 2000000)
  end

  -- The entry of an owner between two positions, and how many are ahead of it; nil and any error.
  local function find_within(owner, first, last)
    local entries = redis.pcall('LRANGE', queue_key, first, last)
    for index = #entries, 1, -1 do
      if string.sub(entries[index], -#owner - 1) == ' ' .. owner then
        return entries[index], first + index - 1
      end
    end
    return nil, entries.err and entries
  end

  -- The same in the whole queue. max_ahead: how many were ahead at most when it was seen last.
  -- Usually it stands a little ahead of that place, or at the head, so both ends are searched in
  -- turn, and few entries are read.
  function queue.find(owner, max_ahead)
    local length = redis.pcall('LLEN', queue_key)
    local tail = type(length) == 'number' and length - 1 or -1
    local low, high = 0, math.min(tonumber(max_ahead) or tail, tail)
    local behind = high + 1
    while low <= high do
      local first = math.max(low, high - search_batch + 1)
      local entry, ahead = find_within(owner, first, high)
      high = first - 1
      if not ahead and low <= high then
        local last = math.min(low + search_batch - 1, high)
        entry, ahead = find_within(owner, low, last)
        low = last + 1
      end
      if ahead then
        return entry, ahead
      end
    end
    if behind <= tail then
      return find_within(owner, behind, tail)
    end
    return nil, type(length) ~= 'number' and length or nil
  end

  -- Removes the entry of an owner. If a group holds the lock, lets in the entries behind it that
  -- may join the group. max_ahead: as for find, where known.
  function queue.leave(owner, max_ahead)
    local entry = queue.find(owner, max_ahead)
    if not entry then
      return
    end
    local was_first = redis.pcall('LINDEX', queue_key, 0) == entry
    redis.pcall('LREM', queue_key, 0, entry)
    local holder = redis.pcall('GET', lock)
    if holder == readers_marker or holder == permits_marker then
      queue.group().admit()
    end
    -- The lock of an owner that releases it goes to the first waiter right after this.
    if was_first and holder ~= owner then
      queue.disturb_first()
    end
  end

  -- Has this script found that nobody listens to a channel? Nobody subscribes meanwhile.
  queue.is_gone = {}

  -- Returns how many listeners a channel has at this server; nil if this user may not publish.
  local function count_listeners(channel)
    if queue.is_gone[channel] then
      return 0
    end
    local counted = redis.pcall('PUBSUB', 'NUMSUB', channel)
    -- A user who may not ask counts them by an empty message.
    local count = counted.err and redis.pcall('PUBLISH', channel, '') or counted[2]
    queue.is_gone[channel] = count == 0 and channel ~= '-'
    return type(count) == 'number' and count or nil
  end

  -- Sends a message to a channel or mailbox. Returns how many listeners it has; nil if this user
  -- may not publish. A mailbox that cannot be used has none.
  function queue.signal(channel, message)
    if string.sub(channel, 1, 1) ~= '@' then
      local listeners = count_listeners(channel)
      -- Replicas pass on what is published, and PUBLISH does not count who hears it there. Whoever
      -- is not counted does not have the lock, and must not hear that it has.
      if (listeners or 0) > 0 then
        listeners = redis.pcall('PUBLISH', channel, message)
      end
      return type(listeners) == 'number' and listeners or nil
    end
    local mailbox = string.sub(channel, 2)
    local length = redis.pcall('LLEN', mailbox)
    if type(length) ~= 'number' or length >= max_messages
      or type(redis.pcall('RPUSH', mailbox, message)) ~= 'number' then
      return 0
    end
    redis.pcall('PEXPIRE', mailbox, mailbox_life)
    return 1
  end

  -- Removes the entries right ahead of a position whose channels nobody listens to, up to the first
  -- that somebody listens to: without a release, they would stay as long as anybody waits. channel:
  -- that of the entry at this position. If nobody listens to it either, the others may have lost
  -- their connections as well, and keep their places. Returns how many entries are ahead then.
  function queue.drop_dead_ahead(ahead, channel)
    -- Clients that get no signals, or have a mailbox, cannot be counted.
    local function listeners_of(channel)
      local is_counted = channel ~= '-' and string.sub(channel, 1, 1) ~= '@'
      return is_counted and count_listeners(channel)
    end
    if ahead == 0 or (listeners_of(channel) or 0) == 0 then
      return ahead
    end
    local texts = redis.pcall('LRANGE', queue_key, math.max(0, ahead - max_dropped), ahead - 1)
    for index = #texts, 1, -1 do
      local entry = queue.parse(texts[index])
      if not entry or listeners_of(entry.channel) ~= 0
        or redis.pcall('LREM', queue_key, 1, texts[index]) ~= 1 then
        break
      end
      ahead = ahead - 1
    end
    return ahead
  end

  -- The text of a signal about the lock for the process of an entry.
  function queue.message_of(entry, words)
    return words .. ' ' .. #entry.owner .. ' ' .. entry.owner .. lock
  end

  -- Signals the process of an entry about the lock. Returns what queue.signal returns.
  function queue.signal_entry(entry, words)
    return queue.signal(entry.channel, queue.message_of(entry, words))
  end

  -- Has the first waiter look again: the lock may be free earlier than it was told, or it has come
  -- to the head of the queue, and does not know that yet.
  function queue.disturb_first()
    local text = redis.pcall('LINDEX', queue_key, 0)
    local first = type(text) == 'string' and queue.parse(text)
    local mailbox = first and string.match(first.channel, '^@(.+)$')
    local unread = mailbox and redis.pcall('LLEN', mailbox)
    if first and first.channel ~= '-' and (type(unread) ~= 'number' or unread < max_looks) then
      queue.signal_entry(first, 'look')
    end
  end

  -- The entry that gets the lock next, and how many entries are ahead of it; nil if there is none.
  -- Entries without a channel are usually passed over if one with a channel follows.
  local function next_entry()
    local first, position = redis.pcall('LINDEX', queue_key, 0), 0
    local entry = first
    while type(entry) == 'string' and string.match(entry, '^%d+ %d+ %S+ %- ') do
      if position == 0 and clock() % no_channel_share == 0 then
        return first, 0
      end
      position = position + 1
      entry = position <= max_passed_over and redis.pcall('LINDEX', queue_key, position)
    end
    if type(entry) ~= 'string' then
      entry, position = first, 0
    end
    return type(entry) == 'string' and entry or nil, position
  end

  -- Removes an entry, or deletes a queue that does not have it.
  function queue.remove(entry, position)
    local is_removed = position == 0 and redis.pcall('LPOP', queue_key) == entry
      or position > 0 and redis.pcall('LREM', queue_key, 1, entry) == 1
    if not is_removed then
      redis.pcall('DEL', queue_key)
    end
    return is_removed
  end

  local function is_in_range(text)
    local number = tonumber(text)
    return number and number >= 1 and number <= max_number
  end

  -- Can commands and draws use the numbers of an entry?
  function queue.is_valid(entry)
    local has_tokens = entry.tokens == 'r' or is_in_range(string.match(entry.tokens, '^p?(%d+)$'))
    return has_tokens and is_in_range(entry.expire) and is_in_range(entry.life)
  end

  -- Hands an exclusive lock to the owner of an entry for the claim window, and signals its process.
  -- last_used, last_reserved: as for draw, where known.
  -- Returns how many listeners there are, and last_used and last_reserved for the next draw; nil if
  -- the lock cannot be handed over.
  local function grant(entry, last_used, last_reserved)
    local first, last = queue.draw(entry.tokens, entry.life, last_used, last_reserved)
    if not first then
      return nil
    end
    local lease = math.min(entry.expire, claim_window)
    -- The lock last: a script that fails half-way is not rolled back.
    if redis.pcall('SET', lock, entry.owner, 'PX', lease).err then
      return nil
    end
    local words = string.format('%s %s %d', first, last, lease)
    local listeners = entry.channel == '-' and 1 or queue.signal_entry(entry, words)
    -- Without a listener nobody uses these fencing tokens: the next draw may return them again.
    return listeners, first - 1, last
  end

  -- The functions for locks of shared kinds, from holders.lua.
  local group
  function queue.group()
    group = group or group_of(queue, lock, queue_key, sender)
    return group
  end

  -- The holder as waiters are told it: for a group, its marker and how many hold the lock.
  function queue.describe_holder(holder)
    local is_group = holder == readers_marker or holder == permits_marker
    return is_group and holder .. ' ' .. queue.group().count() or holder
  end

  -- Hands the lock to the next entry, or to a group of entries, and removes them. except: an owner
  -- whose entry is removed without a hand-over, as it has or releases the lock. last_used,
  -- last_reserved: as for draw, where known.
  -- Returns true if the lock has a next owner, or a group of them, whose processes were signalled;
  -- false if there is none: the lock may then still name an owner that is gone.
  function queue.hand_over(except, last_used, last_reserved)
    while true do
      local text, position = next_entry()
      if not text then
        return false
      end
      local entry, listeners, is_removed = queue.parse(text), 0, false
      if entry and entry.is_hint then
        listeners = not queue.is_expired(entry) and queue.signal_entry(entry, 'free') or 0
        if listeners > 0 and entry.life ~= '0' then
          return false
        end
      elseif entry and entry.owner ~= except and queue.is_valid(entry)
        and not queue.is_gone[entry.channel] then
        if entry.marker and position == 0 then
          listeners, last_used, last_reserved =
            queue.group().admit(except, entry.marker, last_used, last_reserved)
          -- A user who may not read the queue lets nobody in, and would find this entry for ever.
          is_removed = listeners ~= 0 or redis.pcall('LINDEX', queue_key, 0) ~= text
          listeners = is_removed and listeners
        elseif entry.marker and queue.group().end_leases() then
          -- end_leases may have removed this entry, too.
          is_removed = true
        elseif entry.marker then
          listeners, last_used, last_reserved =
            queue.group().let_in(entry.marker, {entry}, last_used, last_reserved)
        else
          listeners, last_used, last_reserved = grant(entry, last_used, last_reserved)
        end
        if not listeners then
          return false
        end
      end
      local is_handed_over = listeners > 0 and not entry.is_hint
      if not is_removed and not queue.remove(text, position) then
        return is_handed_over
      end
      if is_handed_over then
        if entry.marker and position > 0 then
          queue.group().admit(except)
        end
        return true
      end
      -- The process of this hint tries to take the lock. Others of a shared kind may enter too.
      if listeners > 0 and not entry.marker then
        return false
      end
    end
  end

  return queue
end

