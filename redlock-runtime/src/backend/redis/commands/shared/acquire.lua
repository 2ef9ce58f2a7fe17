-- acquire: adds an owner to the holders of a lock of a shared kind, if there is room and no waiter
-- keeps it out. Idempotent per owner, with a new fencing token.
-- KEYS[1] the lock, KEYS[2] the fencing mark of its hash slot, KEYS[3] its fencing counter,
-- KEYS[4] its queue, KEYS[5] its holders
-- ARGV[1] owner, ARGV[2] expire in ms, ARGV[3] life of the counter in ms, ARGV[4] kind:
-- 'r' (reader) or 'p<n>' (one of n permits)
-- Returns {1, fencing token, the same, time} or {0, remaining ms of the holder (-1: no expiry),
-- holder, time}
local lock, mark, counter, queue_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, now = ARGV[1], clock()
local shared = shared_lock(lock, mark, counter, queue_key, owner, ARGV[4])
local is_holder = shared.holds(owner)
if is_holder then
  shared.needs_no_memory(KEYS[5])
end
if is_holder or shared.may_enter() then
  return shared.join(owner, ARGV[2], ARGV[3])
end
local remaining, holder = shared.refusal()
return {0, remaining, holder, now}
