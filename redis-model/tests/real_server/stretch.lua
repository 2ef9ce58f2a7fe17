-- stretch: stands before a script on a real server, where a millisecond of a lease lasts 100 seconds
-- then, and TIME is what stands in the key `clock`.
-- KEYS and ARGV are those of the script behind it.
-- Returns nothing by itself.
local real, factor = redis, 100000
local function stretched(life)
  life = type(life) == 'number' and string.format('%.0f', life) or life
  return string.match(life, '^[1-9]%d*$') and life .. '00000' or life
end
local function wrap(call)
  return function(name, ...)
    local words = {...}
    if name == 'TIME' then
      local seconds, micros = string.match(real.call('GET', 'clock'), '^(%d+) (%d+)$')
      return {seconds, micros}
    end
    if name == 'SET' and words[4] then
      words[4] = stretched(words[4])
    elseif name == 'PEXPIRE' then
      words[2] = stretched(words[2])
    end
    local reply = call(name, unpack(words))
    if name == 'PTTL' and reply > 0 then
      -- Lua rounds the longest lives.
      return math.ceil((reply - 1000) / factor)
    end
    return reply
  end
end
local redis = {
  call = wrap(real.call), pcall = wrap(real.pcall),
  error_reply = real.error_reply, status_reply = real.status_reply,
}
