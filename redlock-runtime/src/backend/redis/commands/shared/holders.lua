-- holders: what scripts do with those who hold a lock of a shared kind together, after hand_over.lua.
-- KEYS and ARGV are those of the script behind it; nothing here depends on them. Returns nothing.

-- sender: as for queue_of.
function group_of(queue, lock, line, sender)
  -- So many entries come in together at most.
  local most_together = 64
  -- So many are read at first: mostly there is no room for more.
  local most_alone = 4
  local group, digits = {}, queue.digits
  -- Those who hold the lock: owners, and the ends of their leases, in microseconds since 1970. An end
  -- is odd while its owner is invited: it was let in and told, for the whole claim window, and has not
  -- claimed the lock yet.
  local holders = string.sub(line, 1, -6) .. 'holders'
  -- So long, in ms, are holders kept behind their leases, to show who has not claimed.
  group.memory = line_life
  -- So many entries are searched for those of a client that has not claimed.
  local most_searched = 256
  -- Have entries left the queue whose client has not claimed?
  group.has_dropped = false

  -- How many leases are not over; nil: what stands there is no set of holders.
  local function count_leases()
    local count = redis.pcall('ZCOUNT', holders, '(' .. digits(clock()), '+inf')
    return type(count) == 'number' and count or nil
  end

  -- Is there room beside the holders, none of a new group, and `others`? Whoever asks for a permit
  -- brings the largest number of permits.
  function group.has_room(tokens, others, is_new)
    local permits = tonumber(string.sub(tokens, 2))
    if not permits or is_new then
      return tokens == 'r' or permits and others < permits
    end
    local count = count_leases()
    return count and count + others < permits
  end

  -- The client of an owner: all but the 24 digits in which its owners differ.
  local function client_of(owner)
    return string.sub(owner, 1, -25)
  end

  -- Removes the leases that are over. A process that has not claimed an invitation is frozen, or its
  -- host is gone: its other entries leave the queue, as each would be invited in vain. Their callers
  -- are told to look, and enqueue anew. The sender shows that its own client lives.
  -- Has an entry left the queue?
  function group.end_leases()
    local now = digits(clock())
    local count = redis.pcall('ZCOUNT', holders, '-inf', now)
    if type(count) ~= 'number' or count == 0 then
      return false
    end
    local ended, silent = redis.pcall('ZRANGE', holders, 0, count - 1, 'WITHSCORES'), {}
    redis.pcall('ZREMRANGEBYSCORE', holders, '-inf', now)
    for place = 1, #ended, 2 do
      if ended[place + 1] % 2 == 1 then
        silent[client_of(ended[place])] = true
      end
    end
    -- What is too short has no such digits.
    silent[''] = nil
    silent[client_of(sender or '')] = nil
    local entries = next(silent) and redis.pcall('LRANGE', line, 0, most_searched - 1) or {}
    local has_dropped = false
    for _, text in ipairs(entries) do
      local entry = queue.parse(text)
      if entry and not entry.is_hint and silent[client_of(entry.owner)] then
        redis.pcall('LREM', line, 1, text)
        if entry.channel ~= '-' then
          queue.tell_of_lock(entry, 'look')
        end
        has_dropped = true
      end
    end
    group.has_dropped = group.has_dropped or has_dropped
    return has_dropped
  end

  -- Makes owners holders, each for a lease in ms; or invites them, which `odd` shows, 1 or nil. The
  -- first of a group remove what is left of an older one. The marker lasts as long as the last of the
  -- leases. Returns what is wrong, if anything.
  function group.enter(marker, entries)
    local left, longest, memory = -1, 0, 0
    if redis.call('GET', lock) == marker then
      left = redis.call('PTTL', lock)
    else
      -- pcall: what is no set of holders is left alone, and told.
      local cleared = redis.pcall('ZREMRANGEBYSCORE', holders, '-inf', '+inf')
      if type(cleared) ~= 'number' then
        return cleared.err
      end
    end
    local now, members, ends = clock(), {}, {}
    now = now - now % 2
    for place, entry in ipairs(entries) do
      local lasts, lease = entry.lease * 1000 + (entry.odd or 0), entry.lease
      -- Most leases are as long as each other, and numbers are slow to print.
      ends[lasts] = ends[lasts] or digits(now + lasts)
      members[2 * place - 1], members[2 * place] = ends[lasts], entry.owner
      longest, memory = math.max(longest, lease), entry.odd and group.memory or memory
    end
    local added = redis.pcall('ZADD', holders, unpack(members))
    if type(added) ~= 'number' then
      return added.err
    end
    redis.pcall('PEXPIRE', holders, digits(math.max(left, longest) + memory))
    -- The lock last: a script that fails half-way is not rolled back.
    return left < longest and redis.pcall('SET', lock, marker, 'PX', longest).err
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
    return count_leases() or 0
  end

  -- Those at the head of the queue for whom there is room beside the holders, and `invited` others;
  -- the entries of the queue that are done with, how many were invited, and whether the queue has no
  -- further entries.
  local function next_together(marker, invited, is_new)
    local entries, done, texts = {}, {}, redis.pcall('LRANGE', line, 0, most_alone - 1)
    while #done < most_together do
      if #done == most_alone then
        for _, text in ipairs(redis.pcall('LRANGE', line, most_alone, most_together - 1)) do
          texts[#texts + 1] = text
        end
      end
      local text = texts[#done + 1]
      if not text then
        return entries, done, invited, #done > 0
      end
      local entry = queue.parse(text)
      -- A hint that is over keeps nobody out.
      if not entry or not entry.is_hint or not queue.is_over(entry) then
        if not entry or entry.marker ~= marker
          or not group.has_room(entry.tokens, invited + #entries, is_new) then
          break
        end
        if entry.is_hint then
          invited = invited + math.min(queue.tell_of_lock(entry, 'free') or 0, 1)
        elseif queue.is_fit(entry) then
          entries[#entries + 1] = entry
        end
      end
      done[#done + 1] = text
    end
    return entries, done, invited, false
  end

  -- Enters the owners of entries for the claim window, each with a fencing token of its own, and
  -- tells their processes: what one of them has to be told is one message.
  -- Returns how many owners heard it, and what give returns besides; nil: they cannot enter.
  function group.let_in(marker, entries, used, reserved)
    local life = 0
    for _, entry in ipairs(entries) do
      entry.lease, life = math.min(entry.expire, claim_window), math.max(life, entry.life)
      -- Who is not told, or has less time, may be late and alive.
      entry.odd = entry.lease == claim_window and entry.channel ~= '-' and 1 or nil
    end
    local first, last_one = queue.draw(#entries, digits(life), used, reserved, #entries)
    if not first or group.enter(marker, entries) then
      return nil
    end
    local channels, owners, messages, heard, is_denied = {}, {}, {}, 0, false
    for place, entry in ipairs(entries) do
      local channel, token = entry.channel, digits(first + place - 1)
      local message = queue.message_of(entry, token .. ' ' .. token .. ' ' .. entry.lease)
      local told = owners[channel]
      if not told then
        told, messages[channel] = {}, {}
        channels[#channels + 1], owners[channel] = channel, told
      end
      told[#told + 1] = entry.owner
      messages[channel][#told] = #message .. ' ' .. message
    end
    for _, channel in ipairs(channels) do
      local message = 'all ' .. table.concat(messages[channel])
      local listeners = channel == '-' and 1 or queue.tell(channel, message)
      if (listeners or 0) > 0 then
        heard = heard + #owners[channel]
      else
        redis.pcall('ZREM', holders, unpack(owners[channel]))
        is_denied = is_denied or not listeners
      end
    end
    if heard == 0 and is_denied then
      return nil
    end
    -- Nobody uses them if nobody listens.
    return heard, first - 1, last_one
  end

  -- Lets in those at the head of the queue for whom there is room; with `new`, a marker, as the
  -- first of a group. used, reserved: as for draw, where that is known.
  -- Returns what let_in returns.
  function group.admit(new, used, reserved)
    local marker, invited, heard = new or redis.pcall('GET', lock), 0, 0
    group.end_leases()
    while true do
      local entries, done, is_all, told
      entries, done, invited, is_all = next_together(marker, invited, new and heard == 0)
      if #entries > 0 then
        told, used, reserved = group.let_in(marker, entries, used, reserved)
        if not told then
          return heard > 0 and heard or nil
        end
        heard = heard + told
        if heard > 0 then
          used, reserved = nil, nil
        end
      end
      if is_all then
        redis.pcall('DEL', line)
        return heard, used, reserved
      end
      for _, text in ipairs(done) do
        if not queue.take_out(text, 0) then
          return heard, used, reserved
        end
      end
      if #done == 0 then
        return heard, used, reserved
      end
    end
  end

  return group
end
