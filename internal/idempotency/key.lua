-- One step of an idempotency key; script.go is the same in Go.
local op, fixed, token, print, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local now = tonumber(fixed)
if fixed == '' then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local function read()
  local text = redis.call('GET', KEYS[1])
  local stop = text and string.find(text, '\n', 1, true)
  if not stop then
    return nil
  end
  local state, owner, print, ends, heard, chunks, failed =
    string.match(string.sub(text, 1, stop - 1), '^([rdlf]) ([^ ]+) ([^ ]+) (%d+) ([01]) (%d+) ([^ ]+)$')
  if not state or #ends > 15 or #chunks > 6 then
    return nil
  end
  return { state = state, token = owner, print = print, ends = tonumber(ends), heard = heard,
    chunks = tonumber(chunks), failed = failed, payload = string.sub(text, stop + 1) }
end

local function write(r, ttl, call)
  local head = string.format('%s %s %s %.0f %s %.0f %s\n', r.state, r.token, r.print, r.ends, r.heard, r.chunks, r.failed)
  call = call or redis.call
  call('SET', KEYS[1], head .. r.payload, 'PX', string.format('%.0f', ttl))
end

local function answer(code, r, left)
  return { code, r and r.token or '', string.format('%.0f', left or 0), string.format('%.0f', r and r.chunks or 0), r and r.payload or '' }
end

local function tell(r)
  if not r or r.heard == '1' or r.token ~= token then
    redis.call('PUBLISH', 'ik:hints', name)
  end
end

local r = read()

if op == 'claim' then
  local lease, awaited, lost, waits = tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
  local code = 'owned'
  if r and awaited ~= '' and r.failed == awaited and (r.state == 'f' or r.state == 'r') then
    return answer('failed', r)
  end
  if r and r.state == 'r' and r.token ~= token then
    if now < r.ends then
      if r.print ~= print then
        return answer('mismatch')
      end
      if waits == '1' and r.heard == '0' then
        r.heard = '1'
        write(r, r.ends + lease - now, redis.pcall) -- a server that is full refuses: the answer holds all the same
      end
      local told = answer('running', r, r.ends - now)
      told[5] = ''
      return told
    end
    code = 'taken'
  end
  if r and (r.state == 'd' or r.state == 'l') and r.token ~= lost then
    if r.print ~= print then
      return answer('mismatch')
    end
    if r.state == 'd' then
      return answer('done', r)
    end
    if r.token == awaited then
      return answer('oversized', r)
    end
  end
  local mine = { state = 'r', token = token, print = print, ends = now + lease, heard = '0', chunks = 0, failed = '-', payload = '' }
  if r and (r.state == 'f' or r.state == 'r') then
    mine.failed, mine.payload = r.failed, r.payload
  end
  write(mine, 2 * lease)
  return answer(code, { token = token, chunks = 0, payload = '' })
end

if op == 'renew' then
  local lease = tonumber(ARGV[6])
  if not r then
    r = { state = 'r', token = token, print = print, heard = '1', chunks = 0, failed = '-', payload = '' }
  elseif r.state ~= 'r' or r.token ~= token then
    return answer('lost')
  end
  r.ends = now + lease
  write(r, 2 * lease)
  return answer('renewed')
end

if op == 'store' then
  local state, chunks, ttl, payload = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
  if r and (r.state == 'r' or r.state == 'd') and r.token ~= token then
    return answer('fenced')
  end
  write({ state = state, token = token, print = print, ends = 0, heard = '0', chunks = chunks, failed = '-', payload = payload }, ttl)
  tell(r)
  return answer('stored')
end

if op == 'free' then
  local ttl, payload = tonumber(ARGV[6]), ARGV[7]
  if not r or r.state ~= 'r' or r.token ~= token then
    return answer('lost')
  end
  write({ state = 'f', token = token, print = print, ends = 0, heard = '0', chunks = 0, failed = token, payload = payload }, ttl)
  tell(r)
  return answer('freed')
end

return redis.error_reply('unknown step')
