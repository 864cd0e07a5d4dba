-- Every step of the counters of one scope: the twin of runLedger in script.go,
-- which says what KEYS, ARGV and the answer are. What it reads, writes and answers
-- is the same, byte by byte; a test drives both and compares. Money is in whole
-- nano-dollars, times are in milliseconds, and no number is over TOP, up to which
-- Lua's are exact.
--
-- The server has one thread, and makes every function anew in every run: fields
-- are read and written together, and what is hardly ever needed is in one function
-- of its own (rarely).

local call, pack, unpack = redis.call, struct.pack, struct.unpack
local sub, find, rep = string.sub, string.find, string.rep
local floor, min, max = math.floor, math.min, math.max

local TOP = 2 ^ 53 - 1
local LIFE, BUILD = 172800000, 120000 -- of a scope's hash
local CHARGED, SETTLED, CLAIM = 86400000, 600000, 5000
local MINUTE = 60 -- seconds that stay in the window beside the newest
local HINTS = 'budget:hints'
local ZERO = '\0\0\0\0\0\0\0\0\0\0\0\0' -- a second of the window in which nothing was begun

local key, step, replica = KEYS[1], ARGV[1], ARGV[4]
local born = replica .. '.' .. ARGV[5] -- the counters that come of this rebuilding
local lease = tonumber(ARGV[3])
local now = tonumber(ARGV[2])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end
local second = floor(now / 1000)

local rarely -- does one of the things that are not done in every call

local function plus(a, b) return min(a + b, TOP) end
local function less(a, b) return max(a - b, 0) end
local function whole(n) return n >= 0 and n <= TOP and n % 1 == 0 end

-- Fields: what they hold, as far as it is known, and what is not yet written.

local held, pending, count, lasts = {}, {}, 0, 0

local function get(field)
  local value = held[field]
  if value == nil then
    value = call('HGET', key, field)
    held[field] = value
  end
  return value
end

-- flush writes, and sees that the hash lives as long as it is meant to, or hardly
-- less.
local function flush()
  if count == 0 then return end
  local flat, n = {}, 0
  for field, value in pairs(pending) do
    flat[n + 1], flat[n + 2] = field, value
    n = n + 2
  end
  if n > 0 then
    call('HSET', key, _G.unpack(flat, 1, n))
    if call('PTTL', key) < lasts - lasts / 48 then call('PEXPIRE', key, lasts) end
  end
  pending, count, lasts = {}, 0, 0
end

local function set(life, field, value)
  held[field], pending[field] = value, value
  count, lasts = count + 1, max(lasts, life)
  if count >= 1000 then flush() end
end

local function drop(field)
  held[field], pending[field] = false, nil
  call('HDEL', key, field)
end

if step == 'reserve' or step == 'settle' or step == 'renew' then -- of a run, a day and a month; of a day, a month and runs
  local to = step == 'renew' and #ARGV or 8
  local got = call('HMGET', key, 'h', 'w', _G.unpack(ARGV, 6, to))
  held.h, held.w = got[1], got[2]
  for i = 6, to do held[ARGV[i]] = got[i - 3] end
end

-- The header.

local birth, last, following, live, sinceDay, sinceMonth, unknown = '', 0, 0, 0, '', '', 0
local known, dirty = false, false
do
  local value = get('h')
  if value and #value > 43 then
    local form, u, l, f, v, d, m = unpack('<c1Bdddc10c7', value)
    if form == '2' and whole(l) and whole(f) and whole(v) then
      known, birth, last, following, live, sinceDay, sinceMonth, unknown = true, sub(value, 44), l, f, v, d, m, u == 1 and 1 or 0
    end
  end
end

-- Periods: what was spent (sr, st, sn: requests, tokens, nano-dollars) and is
-- reserved (rr, rt, rn).

local periods = {}

local function period(field)
  local p = periods[field]
  if p then return p end
  local value = get(field)
  if value and #value == 48 then
    local sr, st, sn, rr, rt, rn = unpack('<dddddd', value)
    if whole(sr) and whole(st) and whole(sn) and whole(rr) and whole(rt) and whole(rn) then
      p = { known = true, dirty = false, sr = sr, st = st, sn = sn, rr = rr, rt = rt, rn = rn }
    end
  end
  p = p or { known = false, dirty = false, sr = 0, st = 0, sn = 0, rr = 0, rt = 0, rn = 0 }
  periods[field] = p
  return p
end

local function spend(p, r, t, n) p.sr, p.st, p.sn = plus(p.sr, r), plus(p.st, t), plus(p.sn, n) end
local function unspend(p, r, t, n) p.sr, p.st, p.sn = less(p.sr, r), less(p.st, t), less(p.sn, n) end
local function hold(p, r, t, n) p.rr, p.rt, p.rn = plus(p.rr, r), plus(p.rt, t), plus(p.rn, n) end
local function unhold(p, r, t, n) p.rr, p.rt, p.rn = less(p.rr, r), less(p.rt, t), less(p.rn, n) end

-- both does the same to the day and the month of an entry, where they are known.
local function both(e, act, r, t, n)
  local p = period(e.day)
  if p.known then
    act(p, r, t, n)
    p.dirty = true
  end
  p = period(e.month)
  if p.known then
    act(p, r, t, n)
    p.dirty = true
  end
end

-- begun returns a period. One that began after the counters did began with
-- nothing spent.
local function begun(field, since)
  local p = period(field)
  if p.known or field <= since then return p end
  p.known, p.dirty = true, true
  rarely('tidy', #field)
  return p
end

local function ready(day, month)
  if not known then return false end
  local d = begun(day, sinceDay).known
  return begun(month, sinceMonth).known and d
end

-- Entries: what the scope knows of one run.

local function decoded(value)
  if not value or #value ~= 59 then return nil end
  local state, counted, expires, at, r, t, n, day, month = unpack('<c1Bdddddc10c7', value)
  if state ~= 'l' and state ~= 'c' and state ~= 's' then return nil end
  if not (whole(expires) and whole(at) and whole(r) and whole(t) and whole(n)) then return nil end
  return { state = state, expires = expires, at = at, counted = counted == 1 and 1 or 0, r = r, t = t, n = n, day = day, month = month }
end

local function encoded(e)
  return pack('<c1Bdddddc10c7', e.state, e.counted, e.expires, e.at, e.r, e.t, e.n, e.day, e.month)
end

-- expect notes when an entry expires.
local function expect(expires)
  if following == 0 or expires < following then following, dirty = expires, true end
end

-- write keeps an entry, and when that was: a clock set back since is noticed.
local function write(run, e)
  set(LIFE, run, encoded(e))
  dirty = true
  expect(e.expires)
end

local function release(e)
  both(e, unhold, e.r, e.t, e.n)
  live, dirty = less(live, 1), true
end

local function keep(e)
  both(e, hold, e.r, e.t, e.n)
  live, dirty = plus(live, 1), true
end

-- The window: what was begun in each second from the first on (slots: requests
-- and tokens), and in all of them (r, t).

local function slot(w, i)
  local r, t = unpack('<I4d', w.slots, 12 * i + 1)
  return r, whole(t) and t or 0
end

-- with adds to one of its seconds, or takes away; never below 0.
local function with(w, at, requests, tokens)
  local slots, n = w.slots, #w.slots / 12
  if n == 0 then
    w.first, slots = at, ZERO
  elseif at < w.first then
    w.first, slots = at, rep(ZERO, w.first - at) .. slots
  elseif at >= w.first + n then
    slots = slots .. rep(ZERO, at - w.first - n + 1)
  end
  w.slots = slots
  local i = at - w.first
  local r, t = slot(w, i)
  local newR, newT = min(max(r + requests, 0), 2 ^ 32 - 1), min(max(t + tokens, 0), TOP)
  w.slots = sub(slots, 1, 12 * i) .. pack('<I4d', newR, newT) .. sub(slots, 12 * i + 13)
  w.r = less(w.r + newR, r)
  local total = w.t - t + newT
  if w.t < TOP and total < TOP then
    w.t = max(total, 0)
    return
  end
  w.t = 0 -- it was over the top, or is now: what is left of it has to be summed
  for j = 0, #w.slots / 12 - 1 do
    local _, more = slot(w, j)
    w.t = plus(w.t, more)
  end
end

local minute

local function window()
  if minute then return minute end
  minute = { first = 0, r = 0, t = 0, slots = '' }
  local value = get('w')
  if not value or #value < 32 then return minute end
  local first, r, t = unpack('<I4dd', value)
  local n = floor((#value - 20) / 12)
  if n > MINUTE + 1 or first + n - 1 > second or (#value - 20) % 12 ~= 0 or not whole(r) or not whole(t) or t == TOP then
    rarely('mend', value, first, n)
    return minute
  end
  local gone = max(second - MINUTE - first, 0)
  if gone >= n then return minute end
  minute.slots = sub(value, 21)
  for i = 0, gone - 1 do
    local oldR, oldT = slot(minute, i)
    r, t = less(r, oldR), less(t, oldT)
  end
  if gone > 0 then minute.slots = sub(value, 21 + 12 * gone) end
  minute.first, minute.r, minute.t = first + gone, r, t
  return minute
end

local function setWindow() set(LIFE, 'w', pack('<I4dd', minute.first, minute.r, minute.t) .. minute.slots) end

local function leaves(at) return (at + MINUTE + 1) * 1000 end

-- empties returns from when on none of its requests and of its tokens are left.
local function empties(w)
  local requests, tokens, r, t = 0, 0, w.r, w.t
  local i = #w.slots / 12
  while i > 0 and (r > 0 or t > 0) do
    i = i - 1
    local ofR, ofT = slot(w, i)
    if r > 0 and ofR > 0 then requests, r = leaves(w.first + i), 0 end
    if t > 0 and ofT > 0 then tokens, t = leaves(w.first + i), 0 end
  end
  return requests, tokens
end

local function inWindow(e) return e.at > 0 and e.at + MINUTE >= second end

-- Answers.

local function said(code, ...) return { code, birth, pack('<d', now), ... } end

local function answer(code, day, month, ...)
  local w, d, m = window(), period(day), period(month)
  return { code, birth, pack('<dddddddddddddddddd', now, live, d.sr, d.st, d.sn, d.rr, d.rt, d.rn,
    m.sr, m.st, m.sn, m.rr, m.rt, m.rn, w.r, w.t, empties(w)), ... }
end

local function reserve(run, day, month)
  local tokens, nano = unpack('<dd', ARGV[9])
  local concurrent, perMinute, tokensPerMinute, dayRequests, dayTokens, dayNano, monthRequests, monthTokens, monthNano =
    unpack('<ddddddddd', ARGV[10]) -- -1 where there is no limit
  if not ready(day, month) then return rarely('claim') end
  local own = decoded(get(run))
  if own and own.state == 's' then return answer('over', day, month) end
  if own and own.state == 'c' then -- its replica was only slow
    both(own, unspend, own.r, own.t, own.n)
    own.state, own.expires = 'l', now + lease
    keep(own)
    write(run, own)
  end
  local first = not own
  own = own or { state = 'l', expires = 0, at = 0, counted = 0, r = 0, t = 0, n = 0, day = day, month = month }

  -- What the run holds already is not in its way, and to need no more than that is
  -- never refused.
  local limit, spent, reserved, resets
  if concurrent >= 0 and first and live + 1 > concurrent then limit, spent, reserved = 0, 0, live end
  if not limit and (perMinute >= 0 or tokensPerMinute >= 0) then
    local w = window()
    if perMinute >= 0 and first and w.r + 1 > perMinute then
      limit, spent, reserved, resets = 1, w.r, 0, rarely('fits', w, perMinute, 1, false)
    elseif tokensPerMinute >= 0 and tokens > own.t then
      if inWindow(own) then
        w = { first = w.first, r = w.r, t = w.t, slots = w.slots }
        with(w, min(own.at, second), 0, -own.t)
      end
      if w.t + tokens > tokensPerMinute then
        limit, spent, reserved, resets = 2, w.t, 0, rarely('fits', w, tokensPerMinute, tokens, true)
      end
    end
  end
  local function check(p, at, requests, most, cost)
    local rr, rt, rn = p.rr, p.rt, p.rn
    if not first then rr, rt, rn = less(rr, own.r), less(rt, own.t), less(rn, own.n) end
    if requests >= 0 and first and p.sr + rr + 1 > requests then
      limit, spent, reserved = at, p.sr, rr
    elseif most >= 0 and tokens > own.t and p.st + rt + tokens > most then
      limit, spent, reserved = at + 1, p.st, rt
    elseif cost >= 0 and nano > own.n and p.sn + rn + nano > cost then
      limit, spent, reserved = at + 2, p.sn, rn
    end
  end
  if not limit then check(period(own.day), 3, dayRequests, dayTokens, dayNano) end
  if not limit then check(period(own.month), 6, monthRequests, monthTokens, monthNano) end
  if limit then return answer('refused', day, month, pack('<dddd', limit, spent, reserved, resets or 0)) end

  -- The request and its tokens are counted in the second in which the run first
  -- asked; more tokens, after that has left the window, in this one.
  if perMinute >= 0 or tokensPerMinute >= 0 or own.at > 0 then
    local w = window()
    if first then
      own.at, own.counted = second, 1
      with(w, second, 1, tokens)
    elseif inWindow(own) then
      with(w, min(own.at, second), 0, tokens - own.t)
    else
      own.at, own.counted = second, 0
      with(w, second, 0, tokens)
    end
    setWindow()
  end
  if not first then release(own) end
  own.r, own.t, own.n, own.expires = 1, tokens, nano, now + lease
  keep(own)
  write(run, own)
  return answer('granted', day, month)
end

-- replace counts the truth of a run, whatever was counted for it until now.
local function replace(old, r, t, n)
  if old.state == 'l' then
    release(old)
  else
    both(old, unspend, old.r, old.t, old.n)
  end
  both(old, spend, r, t, n)
  if inWindow(old) then
    with(window(), min(old.at, second), old.counted == 1 and r - old.r or 0, t - old.t)
    setWindow()
  end
end

local function settle(run, day, month, from, mark)
  local numbered, r, t, n = unpack('<dddd', ARGV[10])
  local old = run ~= '' and decoded(get(run)) or nil
  if not known then
    if old and old.state == 'l' then -- it was told for the rebuilding
      old.state, old.r, old.t, old.n, old.expires = 's', r, t, n, now + SETTLED
      set(BUILD, run, encoded(old))
    end
    return said('unknown')
  end
  local again = from ~= birth and numbered > 0 and rarely('heard', numbered)
  if old then
    replace(old, r, t, n)
  elseif from == birth or again then
    return said('stale')
  else
    old = { state = '', expires = 0, at = 0, counted = 0, day = day, month = month }
    ready(day, month)
    both(old, spend, r, t, n)
  end
  if run ~= '' then
    local complete = period(old.day).known
    complete = period(old.month).known and complete
    if mark == '1' or not complete then
      old.state, old.r, old.t, old.n, old.expires = 's', r, t, n, now + SETTLED
      write(run, old)
    else
      drop(run)
    end
  end
  return said('done')
end

local function renew(day, month)
  if not known then return said('unknown') end
  local missing = {}
  for i = 8, #ARGV do
    local e = decoded(get(ARGV[i]))
    if not e then
      missing[#missing + 1] = ARGV[i]
    elseif e.state == 'l' then
      e.expires = now + lease
      write(ARGV[i], e)
    end
  end
  local out = answer('done', day, month)
  for _, run in ipairs(missing) do out[#out + 1] = run end
  return out
end

function rarely(what, ...)
  local match, format = string.match, string.format
  local KEPT = 3 -- periods of each kind

  local function text(n) return format('%.0f', n) end

  -- number reads up to 16 digits that are not over TOP; nil is none.
  local function number(word)
    if not word or #word > 16 or not find(word, '^%d+$') then return nil end
    local n = tonumber(word)
    return n <= TOP and n or nil
  end

  -- all returns the fields of the hash, in order, and their values.
  local function all()
    flush()
    local flat, fields, values = call('HGETALL', key), {}, {}
    for i = 1, #flat, 2 do
      fields[#fields + 1] = flat[i]
      values[flat[i]] = flat[i + 1]
    end
    table.sort(fields)
    return fields, values
  end

  -- fits returns from when on asked more stay within the limit of requests or of
  -- tokens; 0 is never.
  local function fits(w, limit, asked, ofTokens)
    if asked > limit then return 0 end
    local sum = ofTokens and w.t or w.r
    for i = 0, #w.slots / 12 - 1 do
      local r, t = slot(w, i)
      sum = less(sum, ofTokens and t or r)
      if sum + asked <= limit then return leaves(w.first + i) end
    end
    return 0
  end

  -- mend takes what is in the window one by one, where its sums may not be trusted.
  -- What is not whole is not there, and what lies in the future is of this second.
  local function mend(value, first, n)
    for i = 0, n - 1 do
      local r, t = unpack('<I4d', value, 21 + 12 * i)
      local at = min(first + i, second)
      if at + MINUTE >= second and whole(t) then with(minute, at, r, t) end
    end
  end

  -- tidy forgets periods that are long over: of each kind the newest stay.
  local function tidy(width)
    local old = {}
    for _, field in ipairs((all())) do
      if #field == width and find(field, '^%d') and not period(field).dirty then old[#old + 1] = field end
    end
    for i = 1, #old + 1 - KEPT do
      drop(old[i])
      period(old[i]).known = false
    end
  end

  -- sweep charges what has expired, and forgets what was kept long enough. After
  -- the clock was set back nothing lasts longer than it was meant to.
  local function sweep()
    following, dirty = 0, true
    local lives = { l = lease, c = CHARGED, s = SETTLED }
    local fields, values = all()
    for _, field in ipairs(fields) do
      if sub(field, 1, 2) == 'r:' then
        local e = decoded(values[field])
        if not e then
          drop(field)
        elseif e.expires > now + lives[e.state] then
          e.expires = now + lives[e.state]
          write(field, e)
        elseif e.expires > now then
          expect(e.expires)
        elseif e.state == 'l' then
          release(e)
          both(e, spend, e.r, e.t, e.n)
          e.state, e.expires = 'c', now + CHARGED
          write(field, e)
        else
          drop(field)
        end
      elseif sub(field, 1, 2) == 'q:' then
        local numbered, at = match(values[field], '^(%d+) (%d+)$')
        numbered, at = number(numbered), number(at)
        if not numbered or not at or at + CHARGED < now then drop(field) end
      end
    end
  end

  -- clear forgets all but what dead replicas are charged with.
  local function clear()
    local fields, values = all()
    for _, field in ipairs(fields) do
      local e = sub(field, 1, 2) == 'r:' and decoded(values[field])
      if not e or e.state ~= 'c' then drop(field) end
    end
    periods, minute = {}, nil
  end

  local function building()
    local who, till = match(get('b') or '', '^([^ ]+) (%d+)$')
    till = number(till)
    if till then return who, till end
  end

  -- claim says who rebuilds lost counters: the first that asks, until it has died.
  local function claim()
    local who, till = building()
    if who and till > now and till <= now + CLAIM then return said('unknown', 'wait') end
    if not known then clear() end
    set(BUILD, 'b', born .. ' ' .. text(now + CLAIM))
    call('PUBLISH', HINTS, 'ask ' .. key)
    return said('unknown', 'rebuild')
  end

  -- heard notes the number of a message, and reports whether it was heard before.
  -- Runs of these very counters need no number.
  local function heard(numbered)
    local before, at = match(get('q:' .. replica) or '', '^(%d+) (%d+)$')
    before, at = number(before), number(at)
    if before and at and numbered <= before then return true end
    set(LIFE, 'q:' .. replica, text(numbered) .. ' ' .. text(now))
    return false
  end

  local function tell(numbered, done, seen)
    if not known then
      birth = building() or ''
      if birth == '' then return said('unknown') end -- nobody asks
    end
    for i = 9, #ARGV, 3 do
      local run, e = ARGV[i], decoded(ARGV[i + 1])
      e.expires = plus(e.expires, now)
      if not known then
        set(BUILD, run, encoded(e))
      elseif ARGV[i + 2] ~= birth and (ARGV[i + 2] ~= '' or e.state == 'l') then
        local old = decoded(get(run))
        if not old then
          ready(e.day, e.month)
          if e.state == 'l' then keep(e) else both(e, spend, e.r, e.t, e.n) end
          write(run, e)
        elseif e.state ~= 'l' and old.state ~= 's' then
          replace(old, e.r, e.t, e.n)
          write(run, e)
        end
      end
    end
    if known then return said('stale') end
    numbered = tonumber(numbered)
    if birth ~= '' and numbered > 0 then heard(numbered) end
    if done == '1' then
      set(BUILD, 't:' .. replica, seen)
      call('PUBLISH', HINTS, 'told ' .. key)
    end
    return said('done')
  end

  local function gather(again)
    if again == '1' then call('PUBLISH', HINTS, 'ask ' .. key) end
    local told, runs = {}, {}
    local fields, values = all()
    for _, field in ipairs(fields) do
      if sub(field, 1, 2) == 't:' then
        told[#told + 1] = sub(field, 3)
        told[#told + 1] = values[field]
      elseif sub(field, 1, 2) == 'r:' then
        local e = decoded(values[field])
        if e and e.state ~= 'l' then
          runs[#runs + 1] = field
          runs[#runs + 1] = values[field]
        end
      end
    end
    local out = said('done', text(#told / 2))
    for _, word in ipairs(told) do out[#out + 1] = word end
    for _, word in ipairs(runs) do out[#out + 1] = word end
    return out
  end

  local function yield()
    if building() ~= born then return said('stale') end
    drop('b')
    call('PUBLISH', HINTS, 'open ' .. key)
    return said('done')
  end

  -- opened begins a period with what was spent; it returns nil where it is known.
  local function opened(field, at)
    local p = period(field)
    if p.known then return nil end
    p.known, p.dirty = true, true
    p.sr, p.st, p.sn, p.rr, p.rt, p.rn = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), 0, 0, 0
    return p
  end

  local function open(today, thisMonth, day, month)
    local who, till = building()
    if who ~= born or till <= now then return said('stale') end
    local fresh = not known
    if fresh then
      known, dirty = true, true
      birth, last, following, live = born, now, 0, 0
      sinceDay, sinceMonth = today > day and today or day, thisMonth > month and thisMonth or month
    end
    unknown = ARGV[16] == '1' and 1 or 0
    local ofDay, ofMonth, written = opened(day, 10), opened(month, 13), {}
    local w = { first = 0, r = 0, t = 0, slots = '' }
    for i = 17, #ARGV do written[ARGV[i]] = true end
    local function enter(p, e, gone)
      if e.state == 'l' then
        hold(p, e.r, e.t, e.n)
      elseif not gone then
        spend(p, e.r, e.t, e.n)
      end
    end
    local fields, values = all()
    for _, run in ipairs(fields) do
      local e = sub(run, 1, 2) == 'r:' and decoded(values[run])
      if e then
        if ofDay and e.day == day then enter(ofDay, e, written[run]) end
        if ofMonth and e.month == month then enter(ofMonth, e, written[run]) end
        if fresh and inWindow(e) then with(w, min(e.at, second), e.counted == 1 and e.r or 0, e.t) end
        if written[run] and e.state ~= 'l' then
          drop(run)
        elseif fresh then
          if e.state == 'l' then live = plus(live, 1) end
          write(run, e)
        end
      end
    end
    if fresh and #w.slots > 0 then
      minute = w
      setWindow()
    end
    drop('b')
    for _, field in ipairs(fields) do
      if sub(field, 1, 2) == 't:' then drop(field) end
    end
    call('PUBLISH', HINTS, 'open ' .. key)
    return answer('done', day, month)
  end

  local function lose()
    if not known or unknown ~= 1 then return said('stale') end
    known = false
    clear()
    return said('done')
  end

  local does = {
    fits = fits, mend = mend, tidy = tidy, sweep = sweep, claim = claim, heard = heard,
    tell = tell, gather = gather, yield = yield, open = open, lose = lose,
  }
  return does[what](...)
end

if known and (following > 0 and following <= now or now < last) then rarely('sweep') end

local out
if step == 'reserve' then
  out = reserve(ARGV[6], ARGV[7], ARGV[8])
elseif step == 'settle' then
  out = settle(ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[11])
elseif step == 'renew' then
  out = renew(ARGV[6], ARGV[7])
elseif step == 'look' then
  out = ready(ARGV[6], ARGV[7]) and answer('done', ARGV[6], ARGV[7]) or rarely('claim')
else
  out = rarely(step, ARGV[6], ARGV[7], ARGV[8], ARGV[9])
end

for field, p in pairs(periods) do
  if p.dirty then set(LIFE, field, pack('<dddddd', p.sr, p.st, p.sn, p.rr, p.rt, p.rn)) end
end
if known and dirty then
  set(LIFE, 'h', pack('<c1Bdddc10c7', '2', unknown, now, following, live, sinceDay, sinceMonth) .. birth)
end
flush()
return out
