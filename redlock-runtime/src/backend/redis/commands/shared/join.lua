-- join: the common head of the scripts that enter an owner among the holders of a lock of a shared
-- kind, after hand_over.lua. KEYS and ARGV are those of the script behind it. Returns nothing.

-- So many entries are looked at, to see whether somebody came before.
local most_looked_at = 16

-- owner: as sender for queue_of. tokens: 'r' or 'p<n>'.
local function shared_lock(lock, mark, counter, line, owner, tokens)
  local queue = queue_of(lock, mark, counter, line, owner)
  local shared, group = {queue = queue}, queue.group()
  local marker = tokens == 'r' and readers or permits

  -- Has the owner a lease that is not over?
  function shared.has(owner)
    return redis.call('GET', lock) == marker and (group.ends(owner) or 0) > clock()
  end

  -- Does an entry keep out those who come later? A hint does so only while it stays, and only for a
  -- lock of which there is one holder: others that poll would keep out each other, and themselves.
  local function keeps_out(text)
    local entry = queue.parse(text)
    if not entry then
      return false
    end
    if entry.is_hint then
      return not entry.marker and entry.life ~= '0' and not queue.is_over(entry)
    end
    return tokens ~= 'r' or entry.tokens ~= 'r'
  end

  -- Takes out an entry whose process is gone. One that is told by a mailbox has not fetched for a
  -- while, and whoever asks often would fill it.
  local function is_gone(text)
    local entry = queue.parse(text)
    return string.sub(entry.channel, 1, 1) ~= '@' and not queue.is_there(entry)
      and redis.pcall('LREM', line, 1, text) == 1
  end

  -- Lets in those who stood behind entries that have left the queue.
  function shared.admit_behind_dropped()
    local holder = group.has_dropped and redis.call('GET', lock)
    if holder == readers or holder == permits then
      group.admit()
    end
  end

  -- Is the lock free, or held by a group in which there is room? Entries may leave the queue.
  function shared.has_room()
    group.end_leases()
    local holder = redis.call('GET', lock)
    local has_room = not holder or holder == marker and group.has_room(tokens, 0)
    if not has_room then
      -- There may be room for others, who bring a larger number of permits.
      shared.admit_behind_dropped()
    end
    return has_room
  end

  -- May an owner enter now that has no entry in the queue?
  function shared.may_enter()
    if redis.call('LLEN', line) > 0 and not redis.call('GET', lock) and not queue.hand_over() then
      -- Nobody was there to have it, or somebody was told to ask for it.
      redis.call('DEL', lock)
    end
    if not shared.has_room() then
      return false
    end
    local first = redis.call('LRANGE', line, 0, most_looked_at - 1)
    local were_gone = group.has_dropped
    for _, text in ipairs(first) do
      if keeps_out(text) then
        if not is_gone(text) then
          if were_gone then
            queue.group().admit()
          end
          return false
        end
        were_gone = true
      end
    end
    if not were_gone then
      return true
    end
    -- Those who waited behind them come first.
    queue.group().admit()
    return #first < most_looked_at and shared.has_room()
  end

  -- Enters an owner that has no entry in the queue, or whose entry is taken out next.
  function shared.join(owner, expire, life)
    local first, last_one = queue.draw(1, life)
    if not first then
      return redis.error_reply(last_one)
    end
    local failure = group.enter(marker, {{owner = owner, lease = tonumber(expire)}})
    if failure then
      return redis.error_reply(failure)
    end
    return {1, first, last_one, clock()}
  end

  -- Takes out the entries ahead of a place whose processes are gone, up to the first that is there,
  -- and lets in those behind them. Were all of them gone?
  function shared.drop_dead(ahead)
    if ahead == 0 then
      return true
    end
    local looked_at = math.min(ahead, most_looked_at)
    local are_gone = looked_at == ahead
    for _, text in ipairs(redis.call('LRANGE', line, 0, looked_at - 1)) do
      if queue.is_there(queue.parse(text)) then
        are_gone = false
        break
      end
      redis.call('LREM', line, 1, text)
    end
    if not are_gone then
      queue.group().admit()
    end
    return are_gone
  end

  -- For how long others are kept out, in ms, and who holds the lock.
  function shared.refusal()
    local holder = redis.call('GET', lock) or ''
    -- Another kind waits for the end of the last permit.
    local is_theirs = holder == permits and marker == permits
    local left = is_theirs and group.first_end() or redis.call('PTTL', lock)
    return left, queue.shown(holder)
  end

  return shared
end

