package budget

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// record is a run that was settled here.
type record struct {
	run    uuid.UUID
	name   string
	period Period
	used   sums
	at     int64  // as in holding
	birth  string // of the counters that have counted it
	gone   bool
}

func (r record) entry() entry {
	return entry{
		state: stateSettled, expires: settledLife, at: r.at, counted: r.at > 0,
		amount: r.used, day: r.period.Day, month: r.period.Month,
	}
}

// mostUnwritten bounds what a scope keeps for a database that is away.
const mostUnwritten = 20_000

// ring keeps records in the order in which they came. The oldest go when there
// are too many: then a rebuilding may know of less than was spent.
type ring struct {
	records []record
	index   map[uuid.UUID]int // place in records, beside first
	first   int               // of records that were dropped in front
	gone    int
}

func (r *ring) add(rec record) (dropped uuid.UUID) {
	if r.index == nil {
		r.index = map[uuid.UUID]int{}
	}
	if len(r.records)-r.gone >= mostUnwritten {
		dropped = r.records[0].run // the first is never gone
		r.remove(dropped)
	}
	r.index[rec.run] = r.first + len(r.records)
	r.records = append(r.records, rec)
	return dropped
}

// remove forgets a run.
func (r *ring) remove(run uuid.UUID) {
	at, ok := r.index[run]
	if !ok {
		return
	}
	delete(r.index, run)
	r.records[at-r.first].gone = true
	r.gone++
	for len(r.records) > 0 && r.records[0].gone {
		r.records = r.records[1:]
		r.first++
		r.gone--
	}
	if len(r.records) == 0 {
		r.records = nil
	}
}

func (r *ring) all() []record {
	all := make([]record, 0, len(r.index))
	for _, rec := range r.records {
		if !rec.gone {
			all = append(all, rec)
		}
	}
	return all
}

// counted notes which counters have counted a run.
func (r *ring) counted(run uuid.UUID, birth string) {
	if at, ok := r.index[run]; ok {
		r.records[at-r.first].birth = birth
	}
}

// find returns a record.
func (r *ring) find(run uuid.UUID) (record, bool) {
	at, ok := r.index[run]
	if !ok {
		return record{}, false
	}
	return r.records[at-r.first], true
}

// runShards divide the index of runs, so that settlements do not wait for each
// other.
const runShards = 32

// runIndex finds the scopes that keep a run.
type runIndex struct {
	shards [runShards]struct {
		mu   sync.Mutex
		runs map[uuid.UUID][]*purse
	}
}

func (x *runIndex) add(run uuid.UUID, p *purse) {
	s := &x.shards[run[15]%runShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = map[uuid.UUID][]*purse{}
	}
	s.runs[run] = append(s.runs[run], p)
}

// drop forgets that a scope keeps a run.
func (x *runIndex) drop(run uuid.UUID, p *purse) {
	s := &x.shards[run[15]%runShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := slices.DeleteFunc(s.runs[run], func(o *purse) bool { return o == p }); len(left) > 0 {
		s.runs[run] = left
		return
	}
	delete(s.runs, run)
}

func (x *runIndex) take(run uuid.UUID) []*purse {
	s := &x.shards[run[15]%runShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	purses := s.runs[run]
	delete(s.runs, run)
	return purses
}

// Written tells that the database has these runs, or never will: they are not
// told any more when counters are rebuilt.
func (l *Ledger) Written(runs []uuid.UUID) {
	now := time.Now()
	for _, run := range runs {
		for _, p := range l.runs.take(run) {
			p.written(run, now)
		}
	}
}

// written forgets a run, but for what a window of a minute still counts.
func (p *purse) written(run uuid.UUID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rec, ok := p.unwritten.find(run)
	if ok && rec.at+windowSeconds >= now.Unix() {
		p.recent = append(p.recent, run)
		return
	}
	p.unwritten.remove(run)
}

// forgetRecent forgets written runs that have left the window. The caller holds
// mu.
func (p *purse) forgetRecent(now time.Time) {
	kept := p.recent[:0]
	for _, run := range p.recent {
		if rec, ok := p.unwritten.find(run); ok && rec.at+windowSeconds >= now.Unix() {
			kept = append(kept, run)
			continue
		}
		p.unwritten.remove(run)
	}
	p.recent = kept
}
