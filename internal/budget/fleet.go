package budget

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

const (
	// fleetKey holds which replicas live, each with when it is taken to be dead.
	fleetKey = "budget:{fleet}:replicas"
	// beatEvery is how often a replica shows that it lives, and keeps its
	// reservations; less often where a lease is longer.
	beatEvery = 5 * time.Second
	// fleetLife is how many beats a silent replica is taken to live.
	fleetLife = 4
)

// fleetScript is a replica's heartbeat. KEYS: the fleet. ARGV: the replica (empty:
// only to read), and for how long it is alive now, in milliseconds; 0 = it is
// leaving. The answer: the replicas that live.
var fleetScript = &cache.Script{Name: "fleet", Lua: `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = redis.call('HGETALL', KEYS[1])
local alive = {}
for i = 1, #all, 2 do
  if tonumber(all[i + 1]) and tonumber(all[i + 1]) > now and tonumber(all[i + 1]) < now + 86400000 then
    alive[all[i]] = true
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
if ARGV[1] ~= '' then
  if ARGV[2] == '0' then
    redis.call('HDEL', KEYS[1], ARGV[1])
    alive[ARGV[1]] = nil
    redis.call('PUBLISH', 'budget:hints', 'bye ' .. ARGV[1])
  else
    if not alive[ARGV[1]] then
      redis.call('PUBLISH', 'budget:hints', 'hi ' .. ARGV[1])
    end
    alive[ARGV[1]] = true
    redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + ARGV[2]))
    if redis.call('PTTL', KEYS[1]) < 86400000 then
      redis.call('PEXPIRE', KEYS[1], 86400000)
    end
  end
end
local names = {}
for name in pairs(alive) do
  names[#names + 1] = name
end
table.sort(names)
return names
`, Go: runFleet}

func runFleet(tx cache.Tx, keys, args []string) ([]string, error) {
	const day = 24 * time.Hour
	now := tx.Now().UnixMilli()
	alive := map[string]bool{}
	for name, text := range tx.HashAll(keys[0]) {
		if until, err := strconv.ParseInt(text, 10, 64); err == nil && until > now && until < now+day.Milliseconds() {
			alive[name] = true
			continue
		}
		tx.HashDelete(keys[0], name)
	}
	replica := args[0]
	life, err := strconv.ParseInt(args[1], 10, 64)
	switch {
	case err != nil:
		return nil, errScriptArguments
	case replica == "":
	case life == 0:
		tx.HashDelete(keys[0], replica)
		delete(alive, replica)
		tx.Publish(hints, "bye "+replica)
	default:
		if !alive[replica] {
			tx.Publish(hints, "hi "+replica)
		}
		alive[replica] = true
		tx.HashSet(keys[0], replica, number(now+life), day)
	}
	return slices.Sorted(maps.Keys(alive)), nil
}

// fleet are the replicas that are known to live. It outlives their list in the
// store.
type fleet struct {
	self string

	mu   sync.Mutex
	last map[string]time.Time
}

func (f *fleet) seen(replica string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]time.Time{}
	}
	f.last[replica] = now
}

func (f *fleet) left(replica string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.last, replica)
}

// others are all that live but this one.
func (f *fleet) others(now time.Time) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name, last := range f.last {
		switch {
		case now.Sub(last) > fleetLife*beatEvery:
			delete(f.last, name)
		case name != f.self:
			names = append(names, name)
		}
	}
	return names
}

// complete reports whether all that are known are among the names.
func (f *fleet) complete(names []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.last {
		if name != f.self && !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// size is how many live, with this one, as far as was known lately. It is that of
// the time before an outage too: nobody is heard of in one.
func (f *fleet) size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := int64(1)
	for name := range f.last {
		if name != f.self {
			n++
		}
	}
	return n
}

// meet shows that this replica lives, and learns who else does. A life of 0 says
// that it leaves.
func (l *Ledger) meet(ctx context.Context, replica string, life time.Duration) ([]string, error) {
	names, err := l.store.Run(ctx, fleetScript, []string{fleetKey}, replica, number(life.Milliseconds()))
	if err != nil {
		l.report("show that this gateway lives", err)
		return nil, err
	}
	now := time.Now()
	l.heard.Store(now.UnixNano())
	for _, name := range names {
		l.fleet.seen(name, now)
	}
	return names, nil
}

// others are the replicas that a rebuilding has to hear.
func (l *Ledger) others(ctx context.Context) []string {
	_, _ = l.meet(ctx, "", 0)
	return l.fleet.others(time.Now())
}
