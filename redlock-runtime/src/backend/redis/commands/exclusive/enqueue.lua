-- enqueue: grants a lock that is free and has no queue; otherwise puts the owner at the end of the
-- queue, or looks for its entry. An owner enqueues once. An owner that looks and finds the lock
-- free gets it, even if entries are ahead: their processes are dead or frozen, or would have
-- looked.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue
-- ARGV[1] owner, ARGV[2] expire in ms, ARGV[3] life of the counter in ms, ARGV[4] fencing tokens,
-- ARGV[5] channel, or '' to look, ARGV[6] how many entries were ahead at the last look, or none,
-- ARGV[7] 'drop' if a look takes out entries right ahead whose processes are gone
-- Returns {1, first fencing token, last, time}: granted; {0, remaining ms of the holder, holder,
-- time, how many entries are ahead, 1 if it gets signals, or 0}: in the queue; {2, time}: the queue
-- has no such entry; an error: this user may not search the queue
local lock, mark, counter, queue_key, owner = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local now, queue = clock(), queue_of(lock, mark, counter, queue_key, owner)
local holder = redis.call('GET', lock)

local function grant(wanted)
  local first, last = queue.draw(wanted, ARGV[3])
  if not first then
    return redis.error_reply(last)
  end
  redis.call('SET', lock, owner, 'PX', ARGV[2])
  return {1, first, last, now}
end

if not holder and ARGV[5] == '' then
  local own_entry, failure = queue.find(owner, ARGV[6])
  if not own_entry then
    -- An owner without an entry has no caller that waits for the lock.
    return failure or {2, now}
  end
  local granted = grant(ARGV[4])
  if not granted.err then
    redis.call('LREM', queue_key, 0, own_entry)
  end
  return granted
end
if not holder then
  if not queue.hand_over(owner) then
    return grant(ARGV[4])
  end
  holder = redis.call('GET', lock)
end
if holder == owner then
  -- The lock was handed to this owner meanwhile. None of its fencing tokens was used: it gets the
  -- last.
  local own_entry = ARGV[5] == '' and queue.find(owner, ARGV[6])
  if own_entry then
    redis.call('LREM', queue_key, 0, own_entry)
  end
  local last = redis.call('GET', counter)
  if not last then
    return grant(1)
  end
  redis.call('PEXPIRE', lock, ARGV[2])
  return {1, last, last, now}
end
local channel, ahead = ARGV[5], nil
if channel == '' then
  local entry
  entry, ahead = queue.find(owner, ARGV[6])
  if not entry then
    return ahead or {2, now}
  end
  -- An entry of another form is not signalled.
  channel = string.match(entry, '^%d+ %d+ %S+ (%S+) ') or '-'
  if ARGV[7] == 'drop' then
    ahead = queue.drop_dead_ahead(ahead, channel)
  end
else
  local entry = table.concat({ARGV[2], ARGV[3], ARGV[4], channel, owner}, ' ')
  ahead = redis.call('RPUSH', queue_key, entry) - 1
end
redis.call('PEXPIRE', queue_key, queue_life)
return {0, redis.call('PTTL', lock), queue.describe_holder(holder), now, ahead,
  channel == '-' and 0 or 1}
