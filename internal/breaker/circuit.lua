-- Every step of a circuit that replicas share: the twin of runCircuit in
-- script.go, which says what KEYS, ARGV and the answer are. What it reads, writes
-- and answers is the same, byte by byte; the rules are those of machine.go, and
-- the test drives both and compares.
--
-- Times are whole microseconds. A run makes the functions it needs and no
-- others, because making one costs as much as a look at the record: most runs
-- end where the circuit is closed and stays so.

local call, pack, unpack = redis.call, struct.pack, struct.unpack
local sub, rep, gsub, format = string.sub, string.rep, string.gsub, string.format
local floor, min, max = math.floor, math.min, math.max

local FORMAT = 1 -- the first byte of a record
local CLOSED, OPEN, HALF_OPEN, FORCED_OPEN, DISABLED, SHADOW = 0, 1, 2, 3, 4, 5
local FREE, LEASED, SPENT = 0, 1, 2 -- uses of a slot
local SUCCESS, FAILURE = 1, 2 -- kinds of an outcome
local ALL = 1000000 -- the rate at which every call fails
local FULL = 2 ^ 32 - 1 -- a counter of a bucket (R28)
local FOREVER = 2 ^ 53 -- the end of time, and of whole numbers
local HEADER = '<BBdddddddddddddddddddI2c0I2c0I2c0I2c0I2c0B'

-- What is asked: the step, the time, the policy.

local step, key = ARGV[1], ARGV[6]
local now = tonumber(ARGV[2])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local threshold, failureRate, atLeast, minCalls, slowRate,
  windowCalls, windowWidth, windowBuckets,
  cooldown, multiplier, maxCooldown, cooldownJitter, stepDecay, maxRetryAfter,
  halfOpenCalls, successThreshold, maxHalfOpen, leaseTime, maxNeutral, idleTTL, enabled, canaries, canaryCloses
  = unpack('<ddddddddddddddddddddddd', ARGV[3])

-- The record: a header, the episode of a half-open circuit, the window.

local read = call('GET', KEYS[1]) or ''
local known, form, state, version, birth, generation, probed, since, openUntil, openFor,
  backoffStep, healthySince, streak, began, last, overrideUntil, muted, near,
  openedCalls, openedFailures, openedSlow, openedStreak,
  reason, cause, blamed, note, actor, inEpisode, at = pcall(unpack, HEADER, read)

-- Every number is whole, from 0 to the last one that is: 1/n tells -0, too.
if known then
  known = form == FORMAT and state <= SHADOW and inEpisode == (state == HALF_OPEN and 1 or 0)
    and version % 1 + birth % 1 + generation % 1 + probed % 1 + since % 1 + openUntil % 1 + openFor % 1
      + backoffStep % 1 + healthySince % 1 + streak % 1 + began % 1 + last % 1 + overrideUntil % 1 + muted % 1
      + near % 1 + openedCalls % 1 + openedFailures % 1 + openedSlow % 1 + openedStreak % 1 == 0
    and min(1 / version, 1 / birth, 1 / generation, 1 / probed, 1 / since, 1 / openUntil, 1 / openFor,
      1 / backoffStep, 1 / healthySince, 1 / streak, 1 / began, 1 / last, 1 / overrideUntil, 1 / muted,
      1 / near, 1 / openedCalls, 1 / openedFailures, 1 / openedSlow, 1 / openedStreak) >= 1 / FOREVER
end

local canary, needed, probesWon, probesLost, neutrals, handed, idle, idleSince, slots
if known and state == HALF_OPEN then
  local function whole(n) return n % 1 == 0 and 1 / n >= 1 / FOREVER end
  local count
  known, canary, needed, probesWon, probesLost, neutrals, handed, idle, idleSince, count, at = pcall(unpack, '<ddddddddd', read, at)
  known = known and whole(canary) and canary <= 1 and whole(needed) and whole(probesWon) and whole(probesLost) and whole(neutrals) and whole(handed)
    and whole(idle) and whole(idleSince) and whole(count) and count <= 1000 and at + 24 * count <= #read
  slots = {}
  for i = 1, known and count or 0 do
    local use, lease, expiresAt
    use, lease, expiresAt, at = unpack('<ddd', read, at)
    known = known and whole(use) and use <= SPENT and whole(lease) and whole(expiresAt)
    slots[i] = { use = use, lease = lease, expiresAt = expiresAt }
  end
end

-- The window is one of time, its buckets from the newest on, or (without
-- buckets) one of calls, its outcomes from the oldest on. What it says is
-- believed; only its size has to be right.
local buckets, width, current, cells
local size, pushed, kept, keptFailures, keptSlow, outcomes
known = known and at + 23 <= #read
if known then
  buckets, width, current, at = unpack('<ddd', read, at)
  if buckets > 0 then
    cells = sub(read, at)
    known = buckets <= 1000 and #cells == 12 * buckets and width % 1 + current % 1 == 0
      and 1 / width >= 1 / FOREVER and width > 0 and 1 / current >= 1 / FOREVER
  elseif at + 23 <= #read then
    size, pushed = width, current
    kept, keptFailures, keptSlow, at = unpack('<ddd', read, at)
    outcomes = sub(read, at)
    known = 1 / buckets > 0 and size >= 1 and size <= 100000 and size % 1 + pushed % 1 == 0
      and kept == #outcomes and kept <= size and kept <= pushed and 1 / pushed >= 1 / FOREVER
      and keptFailures <= kept and keptSlow <= kept and keptFailures >= 0 and keptSlow >= 0
  else
    known = false
  end
end
if not known then
  read, state, slots = '', nil, nil
end

-- later adds a duration to a point in time.
local function later(time, d) return min(time + d, FOREVER) end

-- newWindow gives the circuit the empty window of its policy.
local function newWindow()
  if windowCalls > 0 or windowBuckets == 0 then
    buckets, size, pushed, kept, keptFailures, keptSlow, outcomes = 0, windowCalls, 0, 0, 0, 0, ''
  else
    buckets, width, current, cells = windowBuckets, windowWidth, 0, rep('\0', 12 * windowBuckets)
  end
end

-- What comes of the step.

local told, dirty, moved = '', false, false

-- The clock may have been set back: nothing lies in the future, nothing lasts
-- longer than it was meant to. A record that is mended so is written, or it would
-- wait until the clock is back. The policy may want another window (R45).
if known then
  if since > now then since, dirty = now, true end
  if healthySince > now then healthySince, dirty = now, true end
  if began > now then began, dirty = now, true end
  if last > now then last, dirty = now, true end
  if near > now then near, dirty = now, true end
  if muted > now then
    local most = later(now, max(maxRetryAfter, later(maxCooldown, maxCooldown)))
    if muted > most then muted, dirty = most, true end
  end
  if state == OPEN then
    local most = later(now, openFor)
    if openUntil > most then openUntil, dirty = most, true end
  elseif state == HALF_OPEN then
    if idleSince > now then idleSince, dirty = now, true end
    local most = later(now, leaseTime)
    for _, slot in ipairs(slots) do
      if slot.expiresAt > most then slot.expiresAt, dirty = most, true end
    end
  end
  if buckets > 0 then
    local newest = floor(now / width)
    if current > newest then current, dirty = newest, true end
    if windowCalls > 0 or buckets ~= windowBuckets or width ~= windowWidth then newWindow() end
  elseif size ~= windowCalls then
    newWindow()
  end
end

-- ttl is how long the record is kept, in milliseconds: never shorter than what
-- it guards.
local function ttl()
  local forget = 10 * min(stepDecay, 31536000000000)
  local d
  if state == OPEN then
    d = later(later(min(max(0, openUntil - now), openFor), maxCooldown), forget)
  elseif state == HALF_OPEN then
    d = later(later(later(maxHalfOpen, leaseTime), maxCooldown), forget)
  elseif state ~= CLOSED then
    d = 3600000000
  else
    local memory = windowCalls == 0 and max(cooldown, windowWidth * windowBuckets) or cooldown
    d = max(later(memory, memory), idleTTL)
    if backoffStep > 0 then d = max(d, forget) end
  end
  return format('%.0f', math.ceil(min(d, 31536000000000) / 1000))
end

-- encode packs the record.
local function encode()
  local packed = pack(HEADER, FORMAT, state, version, birth, generation, probed, since, openUntil, openFor,
    backoffStep, healthySince, streak, began, last, overrideUntil, muted, near,
    openedCalls, openedFailures, openedSlow, openedStreak,
    #reason, reason, #cause, cause, #blamed, blamed, #note, note, #actor, actor, slots and 1 or 0)
  if slots then
    packed = packed .. pack('<ddddddddd', canary, needed, probesWon, probesLost, neutrals, handed, idle, idleSince, #slots)
    for _, slot in ipairs(slots) do
      packed = packed .. pack('<ddd', slot.use, slot.lease, slot.expiresAt)
    end
  end
  if buckets > 0 then
    return packed .. pack('<ddd', buckets, width, current) .. cells
  end
  return packed .. pack('<dddddd', 0, size, pushed, kept, keptFailures, keptSlow) .. outcomes
end

-- write stores the record and keeps the index of those that are not closed,
-- whose time is never shortened.
local function write()
  version = version + 1
  local packed, px = encode(), ttl()
  call('SET', KEYS[1], packed, 'PX', px)
  if state ~= CLOSED then
    call('HSET', KEYS[2], key, format('%.0f', generation))
    if call('PTTL', KEYS[2]) < tonumber(px) then call('PEXPIRE', KEYS[2], px) end
  elseif moved then
    call('HDEL', KEYS[2], key)
  end
  return packed
end

-- finish writes what has changed and answers.
local function finish(code)
  if not known then
    call('HDEL', KEYS[2], key)
  elseif dirty then
    read = write()
  end
  if moved then redis.pcall('PUBLISH', 'cb:hints', key) end
  return { code, format('%.0f', now), read, told }
end

-- word cuts a text to what a record can hold.
local function word(text) return sub(text, 1, 65535) end

-- counting tells the states in which the ends of calls are counted.
local function counting() return state == CLOSED or state == SHADOW end

-- seen sums what the window shows now.
local function seen()
  if buckets == 0 then return kept, keptFailures, keptSlow end
  local calls, failures, slow = 0, 0, 0
  local behind = max(0, floor(now / width) - current)
  for i = 1, 12 * (buckets - behind), 12 do
    local c, f, w = unpack('<I4I4I4', cells, i)
    calls, failures, slow = calls + c, failures + f, slow + w
  end
  return calls, failures, slow
end

-- endStreak forgets the streak: what passed since its first failure was not
-- healthy time.
local function endStreak(time)
  if streak > 0 then healthySince = later(healthySince, max(0, time - began)) end
  streak, began, last = 0, 0, 0
end

-- passes reports whether so many among so many calls open (R25, R26).
local function passes(limit, some, calls)
  if limit == 0 or calls < (windowCalls > 0 and min(minCalls, windowCalls) or minCalls) then return false end
  local got, bound = some * ALL, calls * limit
  return got > bound or got == bound and (atLeast == 1 or limit == ALL)
end

-- What a replica has seen.
local seenIn, wasClosed, margin, calls, failures, slow, blames, tail, row, broken, reach, hint, isHeld
if step == 'sync' then
  seenIn, wasClosed, margin, calls, failures, slow, blames, tail, row, broken, reach, hint, isHeld = unpack('<ddddddddddddd', ARGV[7])
end

-- empty reports whether it is nothing.
local function empty() return calls == 0 and blames == 0 and tail == 0 and broken ~= 1 and hint == 0 end

-- count adds it to the window, as if it had ended now.
local function count()
  if buckets > 0 then
    local number = floor(now / width)
    local behind = min(max(0, number - current), buckets)
    local c, f, w = 0, 0, 0
    if behind == 0 then c, f, w = unpack('<I4I4I4', cells) end
    c = c + min(calls, FULL - c)
    f, w = f + min(failures, c - f), w + min(slow, c - w)
    cells = pack('<I4I4I4', c, f, w) .. rep('\0', 12 * (behind - 1)) .. sub(cells, behind == 0 and 13 or 1, 12 * (buckets - behind))
    current = max(current, number)
    return
  end
  local added = ARGV[9]
  local all = outcomes .. added
  outcomes = sub(all, -size)
  local function failed(these) return select(2, gsub(these, '[\1\3]', '')) end
  local function late(these) return select(2, gsub(these, '[\2\3]', '')) end
  local dropped = sub(all, 1, #all - #outcomes)
  pushed, kept = pushed + #added, #outcomes
  keptFailures = keptFailures + failed(added) - failed(dropped)
  keptSlow = keptSlow + late(added) - late(dropped)
end

-- blame makes failures of slow calls that were counted before, the newest first.
local function blame()
  if buckets == 0 then
    local turned, n = gsub(string.reverse(outcomes), '\2', '\3', min(blames, #outcomes))
    outcomes, keptFailures = string.reverse(turned), keptFailures + n
    return
  end
  local left = blames
  for i = 1, 12 * min(buckets, current + 1), 12 do
    local c, f, w = unpack('<I4I4I4', cells, i)
    local n = min(left, c - f)
    cells = sub(cells, 1, i - 1) .. pack('<I4I4I4', c, f + n, w) .. sub(cells, i + 12)
    left = left - n
  end
end

-- merge takes it in (R27).
local function merge()
  if broken == 1 then endStreak(now) end
  if tail > 0 then
    local memory = windowCalls == 0 and max(cooldown, windowWidth * windowBuckets) or cooldown
    if broken ~= 1 and streak > 0 and max(0, now - reach - last) > later(memory, memory) then endStreak(last) end
    if streak == 0 then began = now end
    streak, last, blamed = streak + tail, now, word(ARGV[8])
  end
  count()
  if blames > 0 then blame() end
end

-- verdict returns why a circuit has to open now, and which limits of rates are
-- passed: once, for the first of them that is (T1, T2, T3, R21).
local function verdict()
  if state == SHADOW and now < muted then return nil end
  local all, failed, late = seen()
  local byFailures, bySlow = passes(failureRate, failed, all), passes(slowRate, late, all)
  local consecutive = threshold > 0 and streak >= threshold
  if not (consecutive or byFailures or bySlow) then
    near = 0
    return nil
  end
  if isHeld == 1 then return nil end -- (R40)
  -- What others have not told yet could show that no limit is passed: they are
  -- given a moment to tell it. A young circuit may not have heard of them at all.
  if margin > 0 and not (threshold > 0 and row >= threshold) then
    local more = all + floor(all * margin / ALL)
    if now - since < 2400000 or not passes(failureRate, failed, more) and not passes(slowRate, late, more) then
      if near == 0 then near = now end
      if now - near < 25000 then return nil end
    end
  end
  local exceeded = {}
  if byFailures then exceeded[1] = 'failure_rate' end
  if bySlow then exceeded[#exceeded + 1] = 'slow_rate' end
  return consecutive and 'consecutive' or exceeded[1], exceeded
end

-- sync takes what a replica has seen. It returns what becomes of it, and why the
-- circuit has to open, if it has to.
local function sync()
  if not empty() and not (counting() and (seenIn == generation or seenIn == 1 and state == CLOSED)) then
    return 'stale' -- (R8)
  end
  if not counting() then return 'applied' end
  local was = near
  local why, exceeded
  merge()
  if hint > 0 then
    why = 'retry_after'
  elseif near > 0 or not empty() then
    why, exceeded = verdict()
  end
  dirty = dirty or not empty() or near ~= was
  moved = moved or was == 0 and near > 0
  return 'applied', why, exceeded
end

local over = known and overrideUntil > 0 and now >= overrideUntil
local code, why, exceeded
if step == 'sync' and known and not over then
  code, why, exceeded = sync()
  if not why then return finish(code) end
end

-- From here on the circuit moves, or may.

-- clearWindow forgets what was counted.
local function clearWindow()
  if buckets > 0 then
    cells = rep('\0', 12 * buckets)
  else
    pushed, kept, keptFailures, keptSlow, outcomes = 0, 0, 0, 0, ''
  end
end

-- mint returns a generation that tells what begins from what was; it does not
-- order them.
local function mint() return max(1, floor(now / 1000) * 1024 + ARGV[4]) end

-- begin makes a record for a circuit that has none. Its birth tells it from one
-- that was lost, which may have begun with the same generation.
local function begin(with)
  known = true
  state, version, birth, generation, probed, since, openUntil, openFor = CLOSED, 0, mint(), with, 0, now, 0, 0
  backoffStep, healthySince, streak, began, last, overrideUntil, muted, near = 0, now, 0, 0, 0, 0, 0, 0
  openedCalls, openedFailures, openedSlow, openedStreak = 0, 0, 0, 0
  reason, cause, blamed, note, actor = '', '', '', '', ''
  newWindow()
end

-- about makes what others are told of a move.
local function about(to, cause)
  local t = { to = to, from = state, reason = reason, cause = cause, expired = 0, openFor = 0, exceeded = {}, actor = '', note = '' }
  if slots then
    t.calls, t.failures, t.slow, t.streak = probesWon + probesLost, probesLost, 0, 0
  else
    t.calls, t.failures, t.slow = seen()
    t.streak = streak
  end
  return t
end

-- tell tells them.
local function tell(t)
  dirty, moved = true, true
  local first, second = t.exceeded[1] or '', t.exceeded[2] or ''
  told = told .. pack('<BBdddddddI2c0I2c0I2c0I2c0I2c0I2c0', t.from, t.to,
    t.generation, t.calls, t.failures, t.slow, t.streak, t.expired, t.openFor,
    #t.reason, t.reason, #t.cause, t.cause, #first, first, #second, second, #t.actor, t.actor, #t.note, t.note)
end

-- move enters a state with everything counted in the old one cleared (R29).
local function move(to, why)
  local t = about(to, '')
  generation = max(mint(), generation + 1)
  t.reason, t.generation = why, generation
  state, reason, since = to, why, now
  if counting() then healthySince = now end
  streak, began, last, slots, blamed, near = 0, 0, 0, nil, '', 0
  openUntil, openFor, muted, probed, overrideUntil, note, actor = 0, 0, 0, 0, 0, '', ''
  clearWindow()
  return t
end

-- open opens the circuit for a time.
local function open(why, of, d)
  local t = move(OPEN, why)
  cause, openFor, openUntil = of, d, later(now, d)
  openedCalls, openedFailures, openedSlow, openedStreak = t.calls, t.failures, t.slow, t.streak
  t.cause, t.openFor = of, d
  return t
end

-- ownCooldown is how long the present step keeps a circuit open (R30). It counts
-- in nanoseconds, as Go does.
local function ownCooldown()
  local grown, most = cooldown * 1000, maxCooldown * 1000
  if multiplier > 1 then
    for _ = 1, backoffStep do
      if grown >= most then break end
      grown = grown * multiplier
    end
  end
  local d = grown < most and floor(grown) or most
  return min(floor((d + floor(d * cooldownJitter * ARGV[5])) / 1000), FOREVER)
end

-- cool opens the circuit for its own cooldown.
local function cool(why, of) return open(why, of, ownCooldown()) end

-- halfOpen begins an episode, with the slots and the successes of the policy.
local function halfOpen(why)
  local t = move(HALF_OPEN, why)
  canary, needed, probesWon, probesLost, neutrals, handed, idle, idleSince = 0, successThreshold, 0, 0, 0, 0, 0, now
  slots = {}
  for i = 1, halfOpenCalls do slots[i] = { use = FREE, lease = 0, expiresAt = 0 } end
  t.cause = cause
  return t
end

-- await begins the phase in which our own probe finds out, and calls do not
-- (T7).
local function await()
  local t = move(HALF_OPEN, 'canary')
  canary, needed, probesWon, probesLost, neutrals, handed, idle, idleSince = 1, 1, 0, 0, 0, 0, 0, now
  slots = { { use = FREE, lease = 0, expiresAt = 0 } }
  t.cause = cause
  return t
end

-- imagine is what opening is in a shadow circuit.
local function imagine(why, of, d)
  local t = about(SHADOW, of)
  t.reason, t.generation, t.openFor = why, generation, d
  muted, healthySince = later(now, d), now
  streak, began, last, blamed, near = 0, 0, 0, '', 0
  clearWindow()
  return t
end

-- settleBackoff takes off the steps that the healthy time behind has earned
-- (R29).
local function settleBackoff()
  local steps = floor(max(0, (streak > 0 and began or now) - healthySince) / stepDecay)
  backoffStep = steps >= 10 and 0 or max(0, backoffStep - steps)
end

-- trip opens a circuit that counts, for what a replica has seen.
local function trip(why, exceeded)
  local of, d
  if why == 'retry_after' then
    if state == SHADOW and now < muted then return end
    of, d = word(ARGV[8]), min(hint, maxRetryAfter) -- (T4, R32)
  else
    of = why == 'slow_rate' and '' or blamed
  end
  if state == CLOSED or not d then settleBackoff() end
  local opens = state == SHADOW and imagine or open
  local t = opens(why, of, d or ownCooldown())
  t.exceeded = exceeded or {}
  tell(t)
end

-- live counts the leases of an episode.
local function live()
  local n = 0
  for _, slot in ipairs(slots) do
    if slot.use == LEASED then n = n + 1 end
  end
  return n
end

-- idleFor is how long the episode has been without one.
local function idleFor()
  return live() > 0 and idle or later(idle, max(0, now - idleSince))
end

-- ran reports whether a slot is under a lease that is over.
local function ran(slot) return slot.use == LEASED and now >= slot.expiresAt end

-- held returns the slot under a lease.
local function held(lease)
  for _, slot in ipairs(slots) do
    if slot.use == LEASED and slot.lease == lease then return slot end
  end
end

-- lapse ends an episode whose probe was lost (T16) or that nobody has probed for
-- too long (T17).
local function lapse()
  local expired, t = 0, nil
  for _, slot in ipairs(slots) do
    if ran(slot) then expired = expired + 1 end
  end
  if expired > 0 then
    t = cool('probe_lost', cause)
    t.expired = expired
  elseif idleFor() >= maxHalfOpen then
    t = cool('half_open_timeout', cause)
  end
  if t then tell(t) end
  return t ~= nil
end

-- probe leases a free slot, if there is one (T10, T11).
local function probe()
  for _, slot in ipairs(slots) do
    if slot.use == FREE then
      if live() == 0 then idle = idleFor() end
      handed = handed + 1
      local lease = unpack('<dd', ARGV[7])
      slot.use, slot.lease, slot.expiresAt = LEASED, lease > 0 and lease or handed, later(now, leaseTime)
      dirty = true
      return 'probe'
    end
  end
  return 'refused'
end

local function acquire()
  if not known then return 'absent' end
  local _, ours = unpack('<dd', ARGV[7])
  if state == OPEN and now >= openUntil and ours == canaries then
    tell(ours == 1 and await() or halfOpen('half_open')) -- and the first slot in the same step (R2, T6)
    return probe()
  elseif state == HALF_OPEN then
    return (lapse() or canary ~= ours) and 'refused' or probe()
  elseif state == OPEN or state == FORCED_OPEN or ours == 1 then
    return 'refused'
  end
  return 'admitted'
end

-- take takes the verdict of a probe and its slot: a neutral one gives it back
-- (R10).
local function take(slot, kind)
  if kind == SUCCESS then
    probesWon, neutrals = probesWon + 1, 0
  elseif kind == FAILURE then
    probesLost, neutrals = probesLost + 1, 0
  else
    neutrals = neutrals + 1
  end
  slot.use, slot.lease, slot.expiresAt = (kind == SUCCESS or kind == FAILURE) and SPENT or FREE, 0, 0
  if live() == 0 then idleSince = now end
end

-- judge returns the move that the verdicts so far make (T12–T15, R33, R35).
local function judge(hint, of)
  if hint > 0 then return open('retry_after', of, min(hint, maxRetryAfter)) end
  if probesLost > #slots - needed then
    backoffStep = min(backoffStep + 1, max(backoffStep, 2147483647))
    return cool(canary == 1 and 'canary_failure' or 'probe_failure', of)
  end
  if probesWon >= needed and canary == 1 and canaryCloses ~= 1 then return halfOpen('canary_success') end -- (T18)
  if probesWon >= needed then
    local episode = generation
    local t = move(CLOSED, canary == 1 and 'canary_success' or 'probe_success')
    cause, probed = '', episode
    return t
  end
  if canary == 1 and neutrals >= 3 then return halfOpen('canary_unable') end
  if neutrals >= maxNeutral then return cool('half_open_timeout', cause) end
end

-- settle takes the end of a probe. One that has been taken before is stale (R8).
local function settle()
  local given, lease, early, kind, hint = unpack('<ddddd', ARGV[7])
  if state ~= HALF_OPEN or given ~= 0 and given ~= generation then return 'stale' end
  local slot = held(lease)
  local expired = slot and ran(slot)
  if lapse() then return expired and 'expired' or 'stale' end
  if early ~= 1 then
    if not slot then return 'stale' end
    take(slot, kind)
  elseif kind == FAILURE then -- its first token was taken for a success (R18)
    probesWon, probesLost = max(0, probesWon - 1), probesLost + 1
  end
  dirty = true
  local t = judge(hint, word(ARGV[8]))
  if t then tell(t) end
  return 'applied'
end

-- renew keeps the leases whose holder is alive (R11).
local function renew()
  if state ~= HALF_OPEN or lapse() then return 'stale' end
  for i = 1, #ARGV[7], 8 do
    local slot = held((unpack('<d', ARGV[7], i)))
    if slot then
      slot.expiresAt = max(slot.expiresAt, later(now, leaseTime))
      dirty = true
    end
  end
  return 'applied'
end

-- command obeys a person (T20–T25).
local function command()
  local action, d, again, why, who = ARGV[7], unpack('<d', ARGV[8]), ARGV[9] == '1', word(ARGV[10]), word(ARGV[11])
  local operated = state == FORCED_OPEN or state == DISABLED or state == SHADOW
  local to = action == 'open' and FORCED_OPEN or action == 'half_open' and HALF_OPEN
    or action == 'disable' and DISABLED or action == 'shadow' and SHADOW or CLOSED
  local t
  if action == 'reset' or to == CLOSED and state ~= CLOSED then
    if not again or operated then
      t = move(CLOSED, 'operator')
      cause, backoffStep = '', 0
    end
  elseif to == HALF_OPEN and state == OPEN then
    t = halfOpen('operator')
  elseif to == HALF_OPEN and state ~= HALF_OPEN then
    return 'illegal'
  elseif to ~= CLOSED and to ~= HALF_OPEN then
    if to ~= state then
      t = move(to, 'operator')
      cause = ''
    end
    note, actor, overrideUntil = why, who, d > 0 and later(now, d) or 0
    dirty = true
  end
  if t and again then -- what was so before is nothing to tell
    dirty, moved = true, true
  elseif t then
    t.note, t.actor = why, who
    tell(t)
  end
  dirty = dirty or state == FORCED_OPEN or state == DISABLED or state == SHADOW
  return 'applied'
end

if over then -- a person's word ends with its time
  tell(state == FORCED_OPEN and enabled == 1 and halfOpen('override_over') or move(CLOSED, 'override_over'))
end
if step == 'sync' then
  if not known and (empty() or wasClosed ~= 1) then return finish('absent') end
  if not known then begin(seenIn) end -- (T24)
  if not code then
    code, why, exceeded = sync()
  end
  if why then trip(why, exceeded) end
elseif step == 'acquire' then
  code = acquire()
elseif step == 'settle' then
  code = settle()
elseif step == 'renew' then
  code = renew()
elseif step == 'command' then
  if not known then begin(mint()) end
  code = command()
else
  return redis.error_reply('ERR the circuit script does not know the step ' .. step)
end
return finish(code)
