-- join: the functions that add an owner to the holders of a lock of a shared kind, after
-- hand_over.lua and holders.lua. KEYS and ARGV are those of the script after it. Returns nothing.

-- At most this many entries are checked for a waiter that came before.
local max_looked_at = 16
-- A client with this many unread messages counts as gone, and is sent no further ping.
local max_unread = 16

-- owner: also the sender for queue_of. kind: 'r' (reader) or 'p<n>' (one of n permits).
local function shared_lock(lock, mark, counter, queue_key, owner, kind)
  local queue = queue_of(lock, mark, counter, queue_key, owner)
  local shared, group = {queue = queue}, queue.group()
  local marker = kind == 'r' and readers_marker or permits_marker

  -- Does an owner have a lease that has not ended?
  function shared.holds(owner)
    return redis.call('GET', lock) == marker and (group.lease_end(owner) or 0) > clock()
  end

  -- For an owner that has the lock: at `maxmemory` the server refuses a SET or ZADD as the first
  -- write of a script. This ZREM removes nothing.
  function shared.needs_no_memory(holders)
    redis.pcall('ZREM', holders, '')
  end

  -- Does an entry keep out owners that come later? A hint does so only while it stays, and only for
  -- the exclusive lock: waiters of a shared kind that poll would keep out each other and
  -- themselves.
  local function keeps_out(text)
    local entry = queue.parse(text)
    if not entry then
      return false
    end
    if entry.is_hint then
      return not entry.marker and entry.life ~= '0' and not queue.is_expired(entry)
    end
    return kind ~= 'r' or entry.tokens ~= 'r'
  end

  -- Is there a process that waits with this entry, as far as the server can tell?
  local function seems_alive(entry)
    if not entry or entry.is_hint and queue.is_expired(entry) then
      return false
    end
    if entry.channel == '-' then
      return true
    end
    if string.sub(entry.channel, 1, 1) == '@' then
      local unread = redis.pcall('LLEN', string.sub(entry.channel, 2))
      if type(unread) == 'number' and unread >= max_unread then
        return false
      end
    end
    -- A listener is enough: a process whose caller has gone removes the entry itself.
    return queue.signal_entry(entry, 'ping') ~= 0
  end

  -- Removes an entry whose process is gone. A client with a mailbox is not asked: it may not have
  -- fetched for a while, and frequent pings would fill the mailbox.
  local function drop_if_dead(text)
    local entry = queue.parse(text)
    return string.sub(entry.channel, 1, 1) ~= '@' and not seems_alive(entry)
      and redis.pcall('LREM', queue_key, 1, text) == 1
  end

  -- Lets in entries behind those that have left the queue.
  function shared.admit_behind_dropped()
    local holder = group.has_dropped and redis.call('GET', lock)
    if holder == readers_marker or holder == permits_marker then
      group.admit()
    end
  end

  -- Is the lock free, or held by a group that has room? Entries may leave the queue.
  function shared.has_room()
    group.end_leases()
    local holder = redis.call('GET', lock)
    local has_room = not holder or holder == marker and group.has_room(kind, 0)
    if not has_room then
      -- There may be room for others, whose kind allows more permits.
      shared.admit_behind_dropped()
    end
    return has_room
  end

  -- May an owner without an entry in the queue enter now?
  function shared.may_enter()
    if redis.call('LLEN', queue_key) > 0 and not redis.call('GET', lock)
      and not queue.hand_over() then
      -- No process was there to have the lock, or one was told to try.
      redis.call('DEL', lock)
    end
    if not shared.has_room() then
      return false
    end
    local first = redis.call('LRANGE', queue_key, 0, max_looked_at - 1)
    local has_dropped_any = group.has_dropped
    for _, text in ipairs(first) do
      if keeps_out(text) then
        if not drop_if_dead(text) then
          if has_dropped_any then
            queue.group().admit()
          end
          return false
        end
        has_dropped_any = true
      end
    end
    if not has_dropped_any then
      return true
    end
    -- Waiters behind the removed entries come first.
    queue.group().admit()
    return #first < max_looked_at and shared.has_room()
  end

  -- Adds an owner that has no entry in the queue, or whose entry is removed next.
  function shared.join(owner, expire, life)
    local first, last = queue.draw(1, life)
    if not first then
      return redis.error_reply(last)
    end
    if redis.pcall('LLEN', queue_key) == 0 then
      -- Nobody waits: the mark, which is never below this fencing token, is enough.
      redis.call('DEL', counter)
    end
    local failure = group.enter(marker, {{owner = owner, lease = tonumber(expire)}})
    if failure then
      return redis.error_reply(failure)
    end
    return {1, first, last, clock()}
  end

  -- Removes the entries ahead of a position whose processes are gone, up to the first that is
  -- there. Returns whether all of them were gone; if not, lets in the entries for which there is
  -- room.
  function shared.drop_dead(ahead)
    if ahead == 0 then
      return true
    end
    local looked_at = math.min(ahead, max_looked_at)
    local are_all_dead = looked_at == ahead
    for _, text in ipairs(redis.call('LRANGE', queue_key, 0, looked_at - 1)) do
      if seems_alive(queue.parse(text)) then
        are_all_dead = false
        break
      end
      redis.call('LREM', queue_key, 1, text)
    end
    if not are_all_dead then
      queue.group().admit()
    end
    return are_all_dead
  end

  -- How long the lock is refused (ms), and who holds it.
  function shared.refusal()
    local holder = redis.call('GET', lock) or ''
    -- Other kinds wait for the end of the last permit.
    local are_both_permits = holder == permits_marker and marker == permits_marker
    local remaining = are_both_permits and group.time_to_first_end() or redis.call('PTTL', lock)
    return remaining, queue.describe_holder(holder)
  end

  return shared
end

