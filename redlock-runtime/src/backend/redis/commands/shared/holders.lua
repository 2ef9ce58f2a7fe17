-- holders: the functions for the group of owners that hold a lock of a shared kind together, after
-- hand_over.lua.
-- KEYS and ARGV are those of the script after it; nothing here depends on them. Returns nothing.

-- sender: as for queue_of.
function group_of(queue, lock, queue_key, sender)
  -- At most this many entries enter together.
  local max_admitted = 64
  -- This many entries are read at first: usually there is no room for more.
  local first_read = 4
  local group, digits = {}, queue.digits
  -- The key of the holders: owners, and the ends of their leases in microseconds since 1970. The
  -- end is odd while its owner is invited: it was let in for the whole claim window and signalled,
  -- and has not claimed the lock yet.
  local holders_key = string.sub(queue_key, 1, -6) .. 'holders'
  -- How long holders are kept after their leases (ms), to show who has not claimed the lock.
  group.extra_life = queue_life
  -- This many entries are searched for those of a client that has not claimed the lock.
  local max_searched = 256
  -- Have entries left the queue because their client has not claimed the lock?
  group.has_dropped = false

  -- How many leases have not ended; nil if the key has no set of holders.
  local function count_leases()
    local count = redis.pcall('ZCOUNT', holders_key, '(' .. digits(clock()), '+inf')
    return type(count) == 'number' and count or nil
  end

  -- Is there room for an owner of a kind beside the holders and `others` more? A new group has no
  -- holders yet. The kind of a permit says how many permits there are.
  function group.has_room(kind, others, is_new_group)
    local max_permits = tonumber(string.sub(kind, 2))
    if not max_permits or is_new_group then
      return kind == 'r' or max_permits and others < max_permits
    end
    local count = count_leases()
    return count and count + others < max_permits
  end

  -- The client of an owner: all but the last 24 digits, in which its owners differ.
  local function client_of(owner)
    return string.sub(owner, 1, -25)
  end

  -- Removes leases that have ended. A process that has not claimed the lock after an invitation is
  -- frozen, or its host is gone: its other entries leave the queue, as each would be invited in
  -- vain. Their callers are signalled to look, and enqueue again. The client of the sender is
  -- alive. Returns whether an entry has left the queue.
  function group.end_leases()
    local now = digits(clock())
    local count = redis.pcall('ZCOUNT', holders_key, '-inf', now)
    if type(count) ~= 'number' or count == 0 then
      return false
    end
    local ended, silent_clients = redis.pcall('ZRANGE', holders_key, 0, count - 1, 'WITHSCORES'), {}
    redis.pcall('ZREMRANGEBYSCORE', holders_key, '-inf', now)
    for index = 1, #ended, 2 do
      if ended[index + 1] % 2 == 1 then
        silent_clients[client_of(ended[index])] = true
      end
    end
    -- An owner that is too short names no client.
    silent_clients[''] = nil
    silent_clients[client_of(sender or '')] = nil
    local entries = next(silent_clients)
      and redis.pcall('LRANGE', queue_key, 0, max_searched - 1) or {}
    local has_dropped = false
    for _, text in ipairs(entries) do
      local entry = queue.parse(text)
      if entry and not entry.is_hint and silent_clients[client_of(entry.owner)] then
        local is_dropped = redis.pcall('LREM', queue_key, 1, text) == 1
        if is_dropped and entry.channel ~= '-' then
          queue.signal_entry(entry, 'look')
        end
        has_dropped = has_dropped or is_dropped
      end
    end
    group.has_dropped = group.has_dropped or has_dropped
    return has_dropped
  end

  -- How long the marker lasts (ms). If somebody has taken its expiry away, it gets that of the last
  -- lease.
  local function marker_life()
    local life = redis.call('PTTL', lock)
    if life >= 0 then
      return life
    end
    local last_end = redis.pcall('ZRANGE', holders_key, -1, -1, 'WITHSCORES')[2]
    life = math.min(last_end and math.ceil((last_end - clock()) / 1000) or 0, 10000000000000)
    if life > 0 then
      redis.pcall('PEXPIRE', lock, digits(life))
    end
    return life
  end

  -- Adds owners to the holders, each for a lease in ms; invites those with `invited_bit` 1, not
  -- nil. The first of a group remove what is left of an older group. The marker lasts as long as
  -- the last of the leases. Returns an error message, if any.
  function group.enter(marker, entries)
    local marker_left, longest, extra_life = -1, 0, 0
    -- pcall: a lock that a release has just deleted cannot be read while its slot is moved.
    local holder = redis.pcall('GET', lock)
    if type(holder) == 'table' then
      return holder.err
    end
    if holder == marker then
      marker_left = marker_life()
    else
      -- pcall: a key that is no set of holders stays as it is, and the error is returned.
      local cleared = redis.pcall('ZREMRANGEBYSCORE', holders_key, '-inf', '+inf')
      if type(cleared) ~= 'number' then
        return cleared.err
      end
    end
    local now, zadd_args, lease_ends = clock(), {}, {}
    now = now - now % 2
    for index, entry in ipairs(entries) do
      local lease_micros, lease = entry.lease * 1000 + (entry.invited_bit or 0), entry.lease
      -- Most leases have the same length, and numbers are slow to format.
      lease_ends[lease_micros] = lease_ends[lease_micros] or digits(now + lease_micros)
      zadd_args[2 * index - 1], zadd_args[2 * index] = lease_ends[lease_micros], entry.owner
      longest, extra_life = math.max(longest, lease),
        entry.invited_bit and group.extra_life or extra_life
    end
    local added = redis.pcall('ZADD', holders_key, unpack(zadd_args))
    if type(added) ~= 'number' then
      return added.err
    end
    redis.pcall('PEXPIRE', holders_key, digits(math.max(marker_left, longest) + extra_life))
    -- The lock last: a script that fails half-way is not rolled back.
    return marker_left < longest and redis.pcall('SET', lock, marker, 'PX', longest).err
  end

  -- The end of the lease of an owner (us since 1970); nil if it has none.
  function group.lease_end(owner)
    local lease_end = redis.pcall('ZSCORE', holders_key, owner)
    return type(lease_end) == 'string' and tonumber(lease_end) or nil
  end

  -- How long until the first lease ends (ms).
  function group.time_to_first_end()
    local first = redis.pcall('ZRANGE', holders_key, 0, 0, 'WITHSCORES')[2]
    return first and math.max(0, math.ceil((first - clock()) / 1000))
  end

  function group.count()
    return count_leases() or 0
  end

  -- The entries at the head of the queue for which there is room beside the holders, and beside
  -- `hinted` waiters, who were told that the lock is free. except: as for hand_over. Returns these
  -- entries, the texts of all entries that can be removed, the new number of hinted waiters, and
  -- whether the queue ends there.
  local function next_entrants(except, marker, hinted, is_new_group)
    local entries, finished, texts = {}, {}, redis.pcall('LRANGE', queue_key, 0, first_read - 1)
    while #finished < max_admitted do
      if #finished == first_read then
        for _, text in ipairs(redis.pcall('LRANGE', queue_key, first_read, max_admitted - 1)) do
          texts[#texts + 1] = text
        end
      end
      local text = texts[#finished + 1]
      if not text then
        return entries, finished, hinted, #finished > 0
      end
      local entry = queue.parse(text)
      -- A hint for the exclusive lock that does not stay keeps nobody out, nor does an expired one.
      local keeps_nobody_out = entry and entry.is_hint
        and (not entry.marker and entry.life == '0' or queue.is_expired(entry))
      if not keeps_nobody_out then
        if not entry or entry.marker ~= marker
          or not group.has_room(entry.tokens, hinted + #entries, is_new_group) then
          break
        end
        if entry.is_hint then
          hinted = hinted + math.min(queue.signal_entry(entry, 'free') or 0, 1)
        elseif entry.owner ~= except and queue.is_valid(entry)
          and not queue.is_gone[entry.channel] and (is_new_group or not group.lease_end(entry.owner)) then
          -- An owner that has the lock already would be left with the claim window.
          entries[#entries + 1] = entry
        end
      end
      finished[#finished + 1] = text
    end
    return entries, finished, hinted, false
  end

  -- The marker outlives no lease after owners that nobody reached have left the holders.
  local function shorten_marker()
    local last_end = redis.pcall('ZRANGE', holders_key, -1, -1, 'WITHSCORES')[2]
    local life = last_end and math.ceil((last_end - clock()) / 1000) or 0
    local marker_left = redis.pcall('PTTL', lock)
    if life > 0 and type(marker_left) == 'number' and life < marker_left then
      redis.pcall('PEXPIRE', lock, digits(life))
    end
  end

  -- Adds the owners of entries to the holders for the claim window, each with a fencing token of
  -- its own, and signals their processes: those of one channel with one message.
  -- Returns how many owners have a listener, and the other results of grant; nil if they cannot
  -- enter.
  function group.let_in(marker, entries, last_used, last_reserved)
    local life = 0
    for _, entry in ipairs(entries) do
      entry.lease, life = math.min(entry.expire, claim_window), math.max(life, entry.life)
      -- An owner that gets no signal, or has its whole lease already, may be alive and late: it is
      -- not invited.
      local has_to_claim = tonumber(entry.expire) > claim_window
      entry.invited_bit = has_to_claim and entry.channel ~= '-' and 1 or nil
    end
    local first, last = queue.draw(#entries, digits(life), last_used, last_reserved, #entries)
    if not first or group.enter(marker, entries) then
      return nil
    end
    local channels, owners, messages, reached, is_denied = {}, {}, {}, 0, false
    for index, entry in ipairs(entries) do
      local channel, fencing_token = entry.channel, digits(first + index - 1)
      local message =
        queue.message_of(entry, fencing_token .. ' ' .. fencing_token .. ' ' .. entry.lease)
      local channel_owners = owners[channel]
      if not channel_owners then
        channel_owners, messages[channel] = {}, {}
        channels[#channels + 1], owners[channel] = channel, channel_owners
      end
      channel_owners[#channel_owners + 1] = entry.owner
      messages[channel][#channel_owners] = #message .. ' ' .. message
    end
    for _, channel in ipairs(channels) do
      local message = 'all ' .. table.concat(messages[channel])
      local listeners = channel == '-' and 1 or queue.signal(channel, message)
      if (listeners or 0) > 0 then
        reached = reached + #owners[channel]
      else
        redis.pcall('ZREM', holders_key, unpack(owners[channel]))
        is_denied = is_denied or not listeners
      end
    end
    if reached == 0 and is_denied then
      return nil
    end
    if reached < #entries then
      shorten_marker()
    end
    -- Without a listener nobody uses these fencing tokens: the next draw may return them again.
    return reached, first - 1, last
  end

  -- Lets in the entries at the head of the queue for which there is room; as the first of a group
  -- if `new_marker` is given. except: as for hand_over. last_used, last_reserved: as for draw,
  -- where known. Returns what let_in returns.
  function group.admit(except, new_marker, last_used, last_reserved)
    local marker, hinted, reached = new_marker or redis.pcall('GET', lock), 0, 0
    group.end_leases()
    while true do
      local entries, finished, is_whole_queue, newly_reached
      entries, finished, hinted, is_whole_queue =
        next_entrants(except, marker, hinted, new_marker and reached == 0)
      if #entries > 0 then
        newly_reached, last_used, last_reserved =
          group.let_in(marker, entries, last_used, last_reserved)
        if not newly_reached then
          return reached > 0 and reached or nil
        end
        reached = reached + newly_reached
        if reached > 0 then
          last_used, last_reserved = nil, nil
        end
      end
      if is_whole_queue then
        redis.pcall('DEL', queue_key)
        return reached, last_used, last_reserved
      end
      for _, text in ipairs(finished) do
        if not queue.remove(text, 0) then
          return reached, last_used, last_reserved
        end
      end
      if #finished == 0 then
        return reached, last_used, last_reserved
      end
    end
  end

  return group
end
