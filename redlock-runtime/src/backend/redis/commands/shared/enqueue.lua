-- enqueue: adds an owner to the holders of a lock of a shared kind, if there is room and no waiter
-- keeps it out; otherwise puts it at the end of the queue, or looks for its entry. An owner
-- enqueues once. An owner that looks and finds the lock free gets it, even if entries are ahead:
-- their processes are dead or frozen, or would have looked.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue, KEYS[5] its holders
-- ARGV[1] owner, ARGV[2] expire in ms, ARGV[3] life of the counter in ms, ARGV[4] kind:
-- 'r' (reader) or 'p<n>' (one of n permits), ARGV[5] channel, or '' to look, ARGV[6] how many
-- entries were ahead at the last look, or none, ARGV[7] 'drop' if a look takes out entries right
-- ahead whose processes are gone
-- Returns {1, fencing token, the same, time}: granted; {0, remaining ms of the holder, holder,
-- time, how many entries are ahead, 1 if it gets signals, or 0}: in the queue; {2, time}: the queue
-- has no such entry; an error: this user may not search the queue
local lock, mark, counter, queue_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, channel, now = ARGV[1], ARGV[5], clock()
local shared = shared_lock(lock, mark, counter, queue_key, owner, ARGV[4])
local entry, ahead
if channel == '' then
  local has_room, is_holder = shared.has_room(), shared.holds(owner)
  entry, ahead = shared.queue.find(owner, ARGV[6])
  if not entry and not is_holder then
    shared.admit_behind_dropped()
    return ahead or {2, now}
  end
  if is_holder then
    shared.needs_no_memory(KEYS[5])
  end
  if is_holder or not redis.call('GET', lock) or has_room and shared.drop_dead(ahead) then
    local granted = shared.join(owner, ARGV[2], ARGV[3])
    if not granted.err then
      if entry then
        redis.call('LREM', queue_key, 0, entry)
      end
      shared.queue.group().admit()
    end
    return granted
  end
  if shared.holds(owner) then
    return shared.join(owner, ARGV[2], ARGV[3])
  end
  entry, ahead = shared.queue.find(owner, ARGV[6])
  if not entry then
    return ahead or {2, now}
  end
  -- An entry of another form is not signalled.
  channel = string.match(entry, '^%d+ %d+ %S+ (%S+) ') or '-'
  if ARGV[7] == 'drop' then
    ahead = shared.queue.drop_dead_ahead(ahead, channel)
  end
elseif shared.may_enter() then
  return shared.join(owner, ARGV[2], ARGV[3])
else
  entry = table.concat({ARGV[2], ARGV[3], ARGV[4], channel, owner}, ' ')
  ahead = redis.call('RPUSH', queue_key, entry) - 1
end
redis.call('PEXPIRE', queue_key, queue_life)
local remaining, holder = shared.refusal()
return {0, remaining, holder, now, ahead, channel == '-' and 0 or 1}
