-- Every step of a circuit that replicas share: the twin of runCircuit in
-- script.go, which says what KEYS, ARGV and the answer are. What it reads, writes
-- and answers is the same, byte by byte; the rules are those of machine.go, and
-- a test drives both and compares.
--
-- Times are whole microseconds. A circuit that stays closed is read, counted in
-- and written with hardly a function or a table made for it, because making them
-- costs more than the work: hence the long stretches and the many locals. What
-- moves a circuit stands between, in the shape that it has in Go.

local call, pack, unpack = redis.call, struct.pack, struct.unpack
local sub, rep, format = string.sub, string.rep, string.format
local floor, min, max = math.floor, math.min, math.max

local CLOSED, OPEN, HALF_OPEN, FORCED_OPEN, DISABLED, SHADOW = 0, 1, 2, 3, 4, 5
local FREE, LEASED, SPENT = 0, 1, 2 -- uses of a slot
local ALL = 1000000 -- the rate at which every call fails
local FULL = 2 ^ 32 - 1 -- a counter of a bucket (R28)
local FOREVER = 2 ^ 53 -- the end of time, and of whole numbers
local YEAR = 31536000000000
local STEPS = 10000 -- of the back-off
local LONGEST = 65535 -- of a word
local HEADER = '<BBdddddddddddddddddddI2c0I2c0I2c0I2c0I2c0B'

local step, key, us = ARGV[1], ARGV[6], ARGV[2]
if us == '' then
  local time = call('TIME')
  us = time[1] .. sub('00000' .. time[2], -6)
end
local now = tonumber(us)
local minted = max(1, floor(now / 1000) * 1024 + ARGV[4]) -- a generation, which tells what begins from what was

local threshold, failureRate, atLeast, minCalls, slowRate, windowCalls, windowWidth, windowBuckets,
  cooldown, multiplier, maxCooldown, cooldownJitter, stepDecay, maxRetryAfter,
  halfOpenCalls, successThreshold, maxHalfOpen, leaseTime, maxNeutral, idleTTL, enabled, canaries, canaryCloses
  = unpack('<ddddddddddddddddddddddd', ARGV[3])
local memory = min(2 * (windowCalls > 0 and cooldown or max(cooldown, windowWidth * windowBuckets)), FOREVER) -- of a streak

-- The record: a header, the episode of a half-open circuit, the window. It is
-- as good as lost (known is false) unless it is one that was written here.

local read = call('GET', KEYS[1]) or ''
local known, form, state, version, birth, generation, probed, since, openUntil, openFor,
  backoff, healthySince, streak, began, last, overrideUntil, muted, near,
  openedCalls, openedFailures, openedSlow, openedStreak,
  reason, cause, blamed, note, actor, inEpisode, at = pcall(unpack, HEADER, read)

-- Its numbers are whole and from 0 to FOREVER. Of 1/n that says also that n is
-- not -0, which other bytes stand for.
known = known and form == 1 and state <= SHADOW and backoff <= STEPS and inEpisode == (state == HALF_OPEN and 1 or 0)
  and version % 1 + birth % 1 + generation % 1 + probed % 1 + since % 1 + openUntil % 1 + openFor % 1
    + backoff % 1 + healthySince % 1 + streak % 1 + began % 1 + last % 1 + overrideUntil % 1 + muted % 1
    + near % 1 + openedCalls % 1 + openedFailures % 1 + openedSlow % 1 + openedStreak % 1 == 0
  and min(1 / version, 1 / birth, 1 / generation, 1 / probed, 1 / since, 1 / openUntil, 1 / openFor,
    1 / backoff, 1 / healthySince, 1 / streak, 1 / began, 1 / last, 1 / overrideUntil, 1 / muted,
    1 / near, 1 / openedCalls, 1 / openedFailures, 1 / openedSlow, 1 / openedStreak) >= 1 / FOREVER

local episode
if known and state == HALF_OPEN then
  local function whole(n) return n % 1 == 0 and 1 / n >= 1 / FOREVER end
  local e, slots = { slots = {} }, nil
  known, e.canary, e.needed, e.successes, e.failures, e.neutrals, e.handed, e.idle, e.idleSince, slots, at = pcall(unpack, '<ddddddddd', read, at)
  known = known and whole(e.canary) and e.canary <= 1 and whole(e.needed) and whole(e.successes) and whole(e.failures) and whole(e.neutrals) and whole(e.handed)
    and whole(e.idle) and whole(e.idleSince) and whole(slots) and slots <= 1000 and at + 24 * slots <= #read
  for i = 1, known and slots or 0 do
    local slot = {}
    slot.use, slot.lease, slot.expiresAt, at = unpack('<ddd', read, at)
    known = known and whole(slot.use) and slot.use <= SPENT and whole(slot.lease) and whole(slot.expiresAt)
    e.slots[i] = slot
  end
  episode = e
end

-- The window is one of time, with its buckets from the newest on, or one of
-- calls (and no buckets), with their outcomes from the oldest on; before them
-- are their sums. What was counted is believed: only its size has to be right.
local buckets, size, place, kept, keptFailures, keptSlow, counted
known = known and at + 47 <= #read
if known then
  buckets, size, place, kept, keptFailures, keptSlow, at = unpack('<dddddd', read, at)
  counted = sub(read, at)
  known = buckets % 1 + size % 1 + place % 1 == 0 and size >= 1 and size <= FOREVER and 1 / place >= 1 / FOREVER
  if buckets == 0 then
    known = known and 1 / buckets > 0 and size <= 100000 and #counted == kept and kept <= size and kept <= place
  else
    known = known and buckets <= 1000 and #counted == 12 * buckets
  end
end

-- The clock may have been set back: nothing lies in the future, and nothing
-- lasts longer than it was meant to. A record that is mended so is written, or it
-- would wait until the clock is back.
local told, dirty, moved = '', false, false
if known then
  if since > now then since, dirty = now, true end
  if healthySince > now then healthySince, dirty = now, true end
  if began > now then began, dirty = now, true end
  if last > now then last, dirty = now, true end
  if near > now then near, dirty = now, true end
  if muted > now then
    local most = min(now + max(maxRetryAfter, 2 * maxCooldown), FOREVER)
    if muted > most then muted, dirty = most, true end
  end
  if state == OPEN then
    local most = min(now + openFor, FOREVER)
    if openUntil > most then openUntil, dirty = most, true end
  elseif episode then
    if episode.idleSince > now then episode.idleSince, dirty = now, true end
    local most = min(now + leaseTime, FOREVER)
    for _, slot in ipairs(episode.slots) do
      if slot.expiresAt > most then slot.expiresAt, dirty = most, true end
    end
  end
  if buckets > 0 and place > floor(now / size) then place, dirty = floor(now / size), true end
end

-- What a replica has seen. If that is nothing, and nothing is due, it only wants
-- to read.

local over = known and overrideUntil > 0 and now >= overrideUntil -- what a person has said
local seenIn, seenClosed, margin, calls, failures, slow, blames, tail, row, broken, reach, hint, isHeld, nothing
if step == 'sync' then
  seenIn, seenClosed, margin, calls, failures, slow, blames, tail, row, broken, reach, hint, isHeld = unpack('<ddddddddddddd', ARGV[7])
  nothing = calls == 0 and blames == 0 and tail == 0 and broken ~= 1 and hint == 0
  if nothing and known and near == 0 and not over and not dirty then return { 'applied', us, read, '' } end
end

-- A circuit that has no record gets one when a replica that saw it closed has
-- something to say (T24), or a person has. Its birth tells it from one that was
-- lost, which may have begun with the same generation.
if not known then
  local first = step == 'command' and minted or step == 'sync' and not nothing and seenClosed == 1 and seenIn
  if not first then
    call('HDEL', KEYS[2], key)
    return { (step == 'sync' or step == 'acquire') and 'absent' or 'stale', us, '', '' }
  end
  state, version, birth, generation, probed, since, openUntil, openFor = CLOSED, 0, minted, first, 0, now, 0, 0
  backoff, healthySince, streak, began, last, overrideUntil, muted, near = 0, now, 0, 0, 0, 0, 0, 0
  openedCalls, openedFailures, openedSlow, openedStreak = 0, 0, 0, 0
  reason, cause, blamed, note, actor = '', '', '', '', ''
  read, episode, buckets, size = '', nil, nil, nil
end

-- A window of another shape than the policy wants begins anew (R45).
local wantedBuckets = windowCalls > 0 and 0 or windowBuckets
local wantedSize = wantedBuckets > 0 and windowWidth or windowCalls
if buckets ~= wantedBuckets or size ~= wantedSize then
  buckets, size, place, kept, keptFailures, keptSlow = wantedBuckets, wantedSize, 0, 0, 0, 0
  counted = rep('\0', 12 * buckets)
end
local number = buckets > 0 and floor(now / size) or 0 -- of the bucket that is filled now

-- oldest sums the last of some buckets.
local function oldest(all, n)
  local calls, failures, slow = 0, 0, 0
  for i = #all - 12 * n + 1, #all, 12 do
    local c, f, w = unpack('<I4I4I4', all, i)
    calls, failures, slow = calls + c, failures + f, slow + w
  end
  return calls, failures, slow
end

local code, why -- what becomes of the step; why the circuit has to open
local firstLimit, secondLimit = '', '' -- of rates, that were passed
local counts = state == CLOSED or state == SHADOW -- the ends of calls

if step == 'sync' then
  local current = counts and not over and (seenIn == generation or seenIn == 1 and state == CLOSED)
  code = (nothing or current) and 'applied' or 'stale' -- (R8)
end
if code == 'applied' and counts and not over then
  -- The streak (R27). What passed since its first failure was not healthy time.
  local fades = tail > 0 and streak > 0 and max(0, now - reach - last) > memory
  if broken == 1 or fades then
    if streak > 0 then healthySince = min(healthySince + max(0, (broken == 1 and now or last) - began), FOREVER) end
    streak, began, last = 0, 0, 0
  end
  if tail > 0 then
    if streak == 0 then began = now end
    streak, last, blamed = min(streak + tail, 2 ^ 31 - 1), now, sub(ARGV[8], 1, LONGEST)
  end

  -- The window, as if all had ended now. Of slow calls that were counted before,
  -- some have failed since.
  if buckets > 0 then
    if number > place then
      local new = min(number - place, buckets)
      local c, f, w = oldest(counted, new)
      kept, keptFailures, keptSlow = kept - c, keptFailures - f, keptSlow - w
      counted, place = rep('\0', 12 * new) .. sub(counted, 1, 12 * (buckets - new)), number
    end
    local c, f, w = unpack('<I4I4I4', counted)
    local all, failed, late = c + calls, f + failures, w + slow
    if all > FULL then all = FULL end
    if failed > all then failed = all end
    if late > all then late = all end
    kept, keptFailures, keptSlow = kept + all - c, keptFailures + failed - f, keptSlow + late - w
    counted = pack('<I4I4I4', all, failed, late) .. sub(counted, 13)
    for i = 1, blames > 0 and #counted or 0, 12 do
      c, f, w = unpack('<I4I4I4', counted, i)
      local turned = min(blames, c - f)
      counted = sub(counted, 1, i - 1) .. pack('<I4I4I4', c, f + turned, w) .. sub(counted, i + 12)
      keptFailures, blames = keptFailures + turned, blames - turned
    end
  else
    -- An outcome is two bits: failed, slow.
    local function those(bits, outcomes) return select(2, string.gsub(outcomes, bits, '')) end
    local outcomes, all = ARGV[9], counted .. ARGV[9]
    counted = sub(all, -size)
    local gone = sub(all, 1, #all - #counted)
    keptFailures = keptFailures + those('[\1\3]', outcomes) - those('[\1\3]', gone)
    keptSlow = keptSlow + those('[\2\3]', outcomes) - those('[\2\3]', gone)
    place, kept = place + #outcomes, #counted
    if blames > 0 then
      local turned, n = string.gsub(string.reverse(counted), '\2', '\3', min(blames, kept))
      counted, keptFailures = string.reverse(turned), keptFailures + n
    end
  end

  -- The verdict: once, for the first limit that is passed (T1, T2, T3, R21).
  local was = near
  if hint > 0 then
    why = (state == CLOSED or now >= muted) and 'retry_after' or nil
  elseif (near > 0 or not nothing) and (state == CLOSED or now >= muted) then
    local least = windowCalls > 0 and min(minCalls, windowCalls) or minCalls
    local function passes(limit, some, all) -- (R25, R26)
      if limit == 0 or all < least then return false end
      local got, bound = some * ALL, all * limit
      return got > bound or got == bound and (atLeast == 1 or limit == ALL)
    end
    local byFailures, bySlow = passes(failureRate, keptFailures, kept), passes(slowRate, keptSlow, kept)
    local consecutive = threshold > 0 and streak >= threshold
    if not (consecutive or byFailures or bySlow) then
      near = 0
    elseif isHeld ~= 1 then -- as it is while too many of its siblings are open (R40)
      why = consecutive and 'consecutive' or byFailures and 'failure_rate' or 'slow_rate'
      if byFailures then firstLimit = 'failure_rate' elseif bySlow then firstLimit = 'slow_rate' end
      if byFailures and bySlow then secondLimit = 'slow_rate' end
      -- What others have not told yet could show that no limit is passed. They
      -- are given a moment to tell it. A young circuit may not have heard of them
      -- at all.
      local more = kept + floor(kept * margin / ALL)
      if margin > 0 and not (threshold > 0 and row >= threshold)
        and (now - since < 2400000 or not passes(failureRate, keptFailures, more) and not passes(slowRate, keptSlow, more)) then
        if near == 0 then near = now end
        if now - near < 25000 then why = nil end
      end
    end
  end
  dirty = dirty or not nothing or near ~= was
  moved = was == 0 and near > 0
end

if not code or over or why then -- the circuit moves, or may
  local r = {
    state = state, generation = generation, probed = probed, since = since, openUntil = openUntil, openFor = openFor,
    backoff = backoff, healthySince = healthySince, streak = streak, began = began, last = last,
    overrideUntil = overrideUntil, muted = muted, near = near,
    openedCalls = openedCalls, openedFailures = openedFailures, openedSlow = openedSlow, openedStreak = openedStreak,
    reason = reason, cause = cause, blamed = blamed, note = note, actor = actor, episode = episode,
    place = place, kept = kept, keptFailures = keptFailures, keptSlow = keptSlow, counted = counted,
  }

  -- later adds a duration to a point in time.
  local function later(time, d) return min(time + d, FOREVER) end

  -- clear forgets what the window has counted. A window of time stays where it is.
  local function clear()
    r.counted, r.kept, r.keptFailures, r.keptSlow = rep('\0', 12 * buckets), 0, 0, 0
    if buckets == 0 then r.place = 0 end
  end

  -- about makes what others are told of a move.
  local function about(to, why, cause)
    local t = { from = r.state, to = to, why = why, cause = cause, expired = 0, openFor = 0, actor = '', note = '' }
    if r.episode then
      t.calls, t.failures, t.slow, t.streak = r.episode.successes + r.episode.failures, r.episode.failures, 0, 0
    else
      local c, f, w = 0, 0, 0 -- of what the window shows no more
      if buckets > 0 then c, f, w = oldest(r.counted, min(number - r.place, buckets)) end
      t.calls, t.failures, t.slow, t.streak = r.kept - c, r.keptFailures - f, r.keptSlow - w, r.streak
    end
    return t
  end

  -- tell tells them.
  local function tell(t)
    dirty, moved = true, true
    told = told .. pack('<BBdddddddI2c0I2c0I2c0I2c0I2c0I2c0', t.from, t.to,
      t.generation, t.calls, t.failures, t.slow, t.streak, t.expired, t.openFor,
      #t.why, t.why, #t.cause, t.cause, #firstLimit, firstLimit, #secondLimit, secondLimit, #t.actor, t.actor, #t.note, t.note)
  end

  -- move enters a state with everything counted in the old one cleared (R29).
  local function move(to, why)
    local t = about(to, why, '')
    r.generation = max(minted, r.generation + 1)
    t.generation = r.generation
    r.state, r.reason, r.since = to, why, now
    r.streak, r.began, r.last, r.episode, r.blamed, r.near = 0, 0, 0, nil, '', 0
    if to == CLOSED or to == SHADOW then r.healthySince = now end
    r.openUntil, r.openFor, r.muted, r.probed, r.overrideUntil, r.note, r.actor = 0, 0, 0, 0, 0, '', ''
    clear()
    return t
  end

  -- ownCooldown is how long the present step keeps the circuit open (R30). It
  -- counts in nanoseconds, as Go does.
  local function ownCooldown()
    local grown, most = cooldown * 1000, maxCooldown * 1000
    if multiplier > 1 then
      for _ = 1, r.backoff do
        if grown >= most then break end
        grown = grown * multiplier
      end
    end
    local d = grown < most and floor(grown) or most
    return min(floor((d + floor(d * cooldownJitter * ARGV[5])) / 1000), FOREVER)
  end

  -- open opens the circuit for a time; without one, for its own cooldown.
  local function open(why, cause, d)
    local t = move(OPEN, why)
    d = d or ownCooldown()
    r.cause, r.openFor, r.openUntil = cause, d, later(now, d)
    r.openedCalls, r.openedFailures, r.openedSlow, r.openedStreak = t.calls, t.failures, t.slow, t.streak
    t.cause, t.openFor = cause, d
    return t
  end

  -- halfOpen begins an episode, with the slots and the successes of the policy;
  -- that of a canary, with one: calls are still refused (T7).
  local function halfOpen(why, canary)
    local t = move(HALF_OPEN, why)
    local slots = {}
    for i = 1, canary and 1 or halfOpenCalls do slots[i] = { use = FREE, lease = 0, expiresAt = 0 } end
    r.episode = {
      canary = canary and 1 or 0, needed = canary and 1 or successThreshold, slots = slots,
      successes = 0, failures = 0, neutrals = 0, handed = 0, idle = 0, idleSince = now,
    }
    t.cause = r.cause
    return t
  end

  -- held returns the slot under a lease.
  local function held(lease)
    for _, slot in ipairs(r.episode.slots) do
      if slot.use == LEASED and slot.lease == lease then return slot end
    end
  end

  -- live counts the leases; idleFor is how long there has been none.
  local function live()
    local n = 0
    for _, slot in ipairs(r.episode.slots) do
      if slot.use == LEASED then n = n + 1 end
    end
    return n
  end
  local function idleFor()
    local e = r.episode
    return live() > 0 and e.idle or later(e.idle, max(0, now - e.idleSince))
  end

  -- lapse ends an episode whose probe was lost (T16) or that nobody has probed
  -- for too long (T17), and reports whether it has.
  local function lapse()
    local expired, t = 0, nil
    for _, slot in ipairs(r.episode.slots) do
      if slot.use == LEASED and now >= slot.expiresAt then expired = expired + 1 end
    end
    if expired > 0 then
      t = open('probe_lost', r.cause)
      t.expired = expired
    elseif idleFor() >= maxHalfOpen then
      t = open('half_open_timeout', r.cause)
    end
    if t then tell(t) end
    return t ~= nil
  end

  if over then
    tell(r.state == FORCED_OPEN and enabled == 1 and halfOpen('override_over') or move(CLOSED, 'override_over'))
  end

  if why then -- what replicas have seen opens the circuit
    local d = why == 'retry_after' and min(hint, maxRetryAfter) or nil -- (T4, R32)
    local cause = d and sub(ARGV[8], 1, LONGEST) or why ~= 'slow_rate' and r.blamed or ''
    if r.state == CLOSED or not d then -- healthy time takes steps off (R29)
      local steps = floor(max(0, (r.streak > 0 and r.began or now) - r.healthySince) / stepDecay)
      r.backoff = steps >= 10 and 0 or max(0, r.backoff - steps)
    end
    if r.state == CLOSED then
      tell(open(why, cause, d))
    else -- a shadow of opening: it is told, and evidence is gathered anew
      local t = about(SHADOW, why, cause)
      t.generation, t.openFor = r.generation, d or ownCooldown()
      r.muted, r.healthySince = later(now, t.openFor), now
      r.streak, r.began, r.last, r.blamed, r.near = 0, 0, 0, '', 0
      clear()
      tell(t)
    end

  elseif step == 'acquire' then
    local lease, canary = unpack('<dd', ARGV[7])
    if r.state == OPEN and now >= r.openUntil and canary == canaries then
      tell(canary == 1 and halfOpen('canary', true) or halfOpen('half_open')) -- and the first slot in the same step (R2, T6)
      code = 'probe'
    elseif r.state == HALF_OPEN then
      code = not lapse() and r.episode.canary == canary and 'probe' or 'refused'
    else
      code = (r.state == OPEN or r.state == FORCED_OPEN or canary == 1) and 'refused' or 'admitted'
    end
    if code == 'probe' then
      code = 'refused' -- unless there is a slot (T10, T11)
      local e = r.episode
      for _, slot in ipairs(e.slots) do
        if slot.use == FREE then
          if live() == 0 then e.idle = idleFor() end
          e.handed = e.handed + 1
          slot.use, slot.lease, slot.expiresAt = LEASED, lease > 0 and lease or e.handed, later(now, leaseTime)
          code, dirty = 'probe', true
          break
        end
      end
    end

  elseif step == 'renew' then -- leases whose holder is alive (R11)
    code = 'stale'
    if r.state == HALF_OPEN and not lapse() then
      code = 'applied'
      for i = 1, #ARGV[7], 8 do
        local slot = held((unpack('<d', ARGV[7], i)))
        if slot then
          slot.expiresAt, dirty = max(slot.expiresAt, later(now, leaseTime)), true
        end
      end
    end

  elseif step == 'settle' then -- a probe; a verdict that was taken before is stale (R8)
    local given, lease, early, kind, d = unpack('<ddddd', ARGV[7])
    local won, lost = kind == 1, kind == 2
    code = 'stale'
    if r.state == HALF_OPEN and (given == 0 or given == r.generation) then
      local e, slot = r.episode, held(lease)
      if lapse() then
        code = slot and now >= slot.expiresAt and 'expired' or 'stale'
      elseif early == 1 or slot then
        code, dirty = 'applied', true
        if early ~= 1 then -- the slot is spent, or given back (R10)
          e.successes, e.failures = e.successes + (won and 1 or 0), e.failures + (lost and 1 or 0)
          e.neutrals = (won or lost) and 0 or e.neutrals + 1
          slot.use, slot.lease, slot.expiresAt = (won or lost) and SPENT or FREE, 0, 0
          if live() == 0 then e.idleSince = now end
        elseif lost then -- its first token was taken for a success (R18)
          e.successes, e.failures = max(0, e.successes - 1), e.failures + 1
        end

        -- What the verdicts so far make (T12-T15, R33, R35).
        local cause, episode, canary = sub(ARGV[8], 1, LONGEST), r.generation, e.canary == 1
        if d > 0 then
          tell(open('retry_after', cause, min(d, maxRetryAfter)))
        elseif e.failures > #e.slots - e.needed then
          r.backoff = min(r.backoff + 1, STEPS)
          tell(open(canary and 'canary_failure' or 'probe_failure', cause))
        elseif e.successes >= e.needed and canary and canaryCloses ~= 1 then
          tell(halfOpen('canary_success')) -- (T18)
        elseif e.successes >= e.needed then
          tell(move(CLOSED, canary and 'canary_success' or 'probe_success'))
          r.cause, r.probed = '', episode
        elseif canary and e.neutrals >= 3 then
          tell(halfOpen('canary_unable'))
        elseif e.neutrals >= maxNeutral then
          tell(open('half_open_timeout', r.cause))
        end
      end
    end

  elseif step == 'command' then -- of a person (T20-T25)
    local action, d, again, words, who = ARGV[7], unpack('<d', ARGV[8]), ARGV[9] == '1', sub(ARGV[10], 1, LONGEST), sub(ARGV[11], 1, LONGEST)
    local to = ({ open = FORCED_OPEN, half_open = HALF_OPEN, disable = DISABLED, shadow = SHADOW })[action] or CLOSED
    local t
    code = 'applied'
    if action == 'reset' or to == CLOSED and r.state ~= CLOSED then
      if not again or r.state >= FORCED_OPEN then
        t = move(CLOSED, 'operator')
        r.cause, r.backoff = '', 0
      end
    elseif to == HALF_OPEN and r.state == OPEN then
      t = halfOpen('operator')
    elseif to == HALF_OPEN and r.state ~= HALF_OPEN then
      code = 'illegal'
    elseif to >= FORCED_OPEN then
      if to ~= r.state then
        t = move(to, 'operator')
        r.cause = ''
      end
      r.note, r.actor, r.overrideUntil = words, who, d > 0 and later(now, d) or 0
      dirty = true
    end
    if t and again then -- it was so before: nobody is told
      dirty, moved = true, true
    elseif t then
      t.note, t.actor = words, who
      tell(t)
    end
  end

  state, generation, probed, since, openUntil, openFor = r.state, r.generation, r.probed, r.since, r.openUntil, r.openFor
  backoff, healthySince, streak, began, last = r.backoff, r.healthySince, r.streak, r.began, r.last
  overrideUntil, muted, near = r.overrideUntil, r.muted, r.near
  openedCalls, openedFailures, openedSlow, openedStreak = r.openedCalls, r.openedFailures, r.openedSlow, r.openedStreak
  reason, cause, blamed, note, actor, episode = r.reason, r.cause, r.blamed, r.note, r.actor, r.episode
  place, kept, keptFailures, keptSlow, counted = r.place, r.kept, r.keptFailures, r.keptSlow, r.counted
end

-- What has changed is written, and kept for never less than what it guards. The
-- index of circuits that are not closed is kept as long as the longest of them.

if not code then
  return redis.error_reply('ERR the circuit script knows no step ' .. step)
end
if dirty then
  local e, rest = episode, ''
  if e then
    rest = pack('<ddddddddd', e.canary, e.needed, e.successes, e.failures, e.neutrals, e.handed, e.idle, e.idleSince, #e.slots)
    for _, slot in ipairs(e.slots) do
      rest = rest .. pack('<ddd', slot.use, slot.lease, slot.expiresAt)
    end
  end
  rest = rest .. pack('<dddddd', buckets, size, place, kept, keptFailures, keptSlow)
  read = pack(HEADER, 1, state, version + 1, birth, generation, probed, since, openUntil, openFor,
    backoff, healthySince, streak, began, last, overrideUntil, muted, near,
    openedCalls, openedFailures, openedSlow, openedStreak,
    #reason, reason, #cause, cause, #blamed, blamed, #note, note, #actor, actor, e and 1 or 0) .. rest .. counted

  local ttl, forget = 3600000000, 10 * min(stepDecay, YEAR)
  if state == CLOSED then
    ttl = max(memory, idleTTL, backoff > 0 and forget or 0)
  elseif state == OPEN then
    ttl = min(max(0, openUntil - now), openFor) + maxCooldown + forget
  elseif state == HALF_OPEN then
    ttl = maxHalfOpen + leaseTime + maxCooldown + forget
  end
  ttl = math.ceil(min(ttl, YEAR) / 1000)
  local ms = format('%.0f', ttl)
  call('SET', KEYS[1], read, 'PX', ms)
  if state ~= CLOSED then
    call('HSET', KEYS[2], key, format('%.0f', generation))
    if call('PTTL', KEYS[2]) < ttl then call('PEXPIRE', KEYS[2], ms) end
  elseif moved then
    call('HDEL', KEYS[2], key)
  end
end
if moved then call('PUBLISH', 'cb:hints', key) end
return { code, us, read, told }
