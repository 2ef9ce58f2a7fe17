-- renew: extends the leases that still have their owner. Never creates a key.
-- KEYS[i] the locks (in one hash slot on a cluster)
-- ARGV[2i-1] owner, ARGV[2i] expire in ms
-- Returns the failures only, flat: {i, 0 (gone) or 1 (another owner), ...}
local failures = {}
for i, key in ipairs(KEYS) do
  -- pcall: a key of another type is "not ours", and must not fail the rest of the batch.
  local holder = redis.pcall('GET', key)
  if holder == ARGV[2 * i - 1] then
    redis.call('PEXPIRE', key, ARGV[2 * i])
  else
    failures[#failures + 1] = i
    failures[#failures + 1] = holder and 1 or 0
  end
end
return failures
