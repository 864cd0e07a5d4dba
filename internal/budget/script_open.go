package budget

import (
	"maps"
	"slices"
	"strings"
)

// tell is what a replica knows of lost counters, or of a run that they lack. Its
// arguments are the number of its last message, whether that is all it has to
// say, what it has last seen of the scope, and runs, each with its entry, whose
// expiry is from now, and the birth of the counters that it is in. Counters that
// are there (code stale) do not take their own again, nor a settled run that is in
// none yet, whose message is on its way. The answer's birth is that of the
// counters that the runs are in now.
func (s *step) tell(args []string) ([]string, error) {
	numbered, err := whole(args[0])
	if err != nil {
		return nil, err
	}
	if !s.known {
		if s.head.birth, _ = s.building(); s.head.birth == "" {
			return s.said(codeUnknown), nil // nobody asks
		}
	}
	for i := 3; i < len(args); i += 3 {
		e, ok := decodeEntry(args[i+1])
		if !ok {
			return nil, errScriptArguments
		}
		e.expires = sum(e.expires, s.now)
		if birth := args[i+2]; !s.known || birth != s.head.birth && (birth != "" || e.state == stateLive) {
			s.told(args[i], e)
		}
	}
	if s.known {
		return s.said(codeStale), nil
	}
	s.heard("", numbered)
	if args[1] == "1" {
		s.tx.HashSet(s.key, prefixTold+s.replica, args[2], buildLife)
		s.tx.Publish(hints, "told "+s.key)
	}
	return s.said(codeDone), nil
}

// told takes one run. Counters that are there already count it now.
func (s *step) told(run string, e entry) {
	if !s.known {
		s.tx.HashSet(s.key, run, e.encode(), buildLife)
		return
	}
	old, found := s.entry(run)
	switch {
	case found && (e.state == stateLive || old.state == stateSettled):
		return
	case found:
		s.replace(old, e.amount)
	case e.state == stateLive:
		s.ready(e.day, e.month)
		s.hold(e)
	default:
		s.ready(e.day, e.month)
		s.both(e.day, e.month, func(t *tally) { t.spent.add(e.amount) })
	}
	s.write(run, e)
}

// gather answers what was told: how many replicas, each with what it has last
// seen, and the runs that the database may have counted, with their entries. If
// wanted it asks again.
func (s *step) gather(again bool) []string {
	if again {
		s.tx.Publish(hints, "ask "+s.key)
	}
	var told, runs []string
	all := s.tx.HashAll(s.key)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if replica, ok := strings.CutPrefix(field, prefixTold); ok {
			told = append(told, replica, all[field])
		}
		if isRun(field) {
			if e, ok := decodeEntry(all[field]); ok && e.state != stateLive {
				runs = append(runs, field, all[field])
			}
		}
	}
	more := append([]string{number(int64(len(told) / 2))}, told...)
	return s.said(codeDone, append(more, runs...)...)
}

// yield leaves the rebuilding to others.
func (s *step) yield() []string {
	if token, _ := s.building(); token != s.born() {
		return s.said(codeStale)
	}
	s.tx.HashDelete(s.key, fieldBuild)
	s.tx.Publish(hints, "open "+s.key)
	return s.said(codeDone)
}

// open begins the counters of a day and a month: with what the database has,
// and, on top, what it has not. Its arguments are today and this month, the day
// and the month, what was spent in either, whether that is a guess, and the runs
// that are in it.
func (s *step) open(args []string) ([]string, error) {
	if token, until := s.building(); token != s.born() || until <= s.now {
		return s.said(codeStale), nil
	}
	day, month := args[2], args[3]
	spentDay, err := wholes(args[4:7])
	if err != nil {
		return nil, err
	}
	spentMonth, err := wholes(args[7:10])
	if err != nil {
		return nil, err
	}
	fresh := !s.known
	if fresh {
		s.known, s.dirty = true, true
		s.head = header{birth: s.born(), last: s.now, day: max(args[0], day), month: max(args[1], month)}
	}
	s.head.unknown = args[10] == "1"
	d := s.period(day)
	openDay := !d.known
	if openDay {
		*d = counted{field: d.field, tally: tally{spent: spentDay}, known: true, dirty: true}
	}
	m := s.period(month)
	openMonth := !m.known
	if openMonth {
		*m = counted{field: m.field, tally: tally{spent: spentMonth}, known: true, dirty: true}
	}
	written := make(map[string]bool, len(args)-11)
	for _, run := range args[11:] {
		written[run] = true
	}
	var w window
	all := s.tx.HashAll(s.key)
	for _, run := range slices.Sorted(maps.Keys(all)) {
		e, ok := decodeEntry(all[run])
		if !ok || !isRun(run) {
			continue
		}
		if openDay && e.day == day {
			s.enter(day, e, written[run])
		}
		if openMonth && e.month == month {
			s.enter(month, e, written[run])
		}
		switch {
		case fresh:
			s.revive(run, e, written[run], &w)
		case written[run] && e.state != stateLive:
			s.tx.HashDelete(s.key, run)
		}
	}
	if fresh && w.seconds > 0 {
		s.minute, s.looked = w, true
		s.setWindow()
	}
	s.forgetBuilding(all)
	s.tx.Publish(hints, "open "+s.key)
	return s.answer(codeDone, day, month), nil
}

// enter counts an entry in a period that is opened.
func (s *step) enter(field string, e entry, written bool) {
	p := s.period(field)
	switch {
	case e.state == stateLive:
		p.reserved.add(e.amount)
	case !written:
		p.spent.add(e.amount)
	}
}

// revive takes an entry into new counters.
func (s *step) revive(run string, e entry, written bool, w *window) {
	if s.inWindow(e) {
		requests := int64(0)
		if e.counted {
			requests = e.amount.requests
		}
		w.add(min(e.at, s.now/1000), requests, e.amount.tokens)
	}
	switch {
	case e.state == stateLive:
		s.head.live = sum(s.head.live, 1)
	case written:
		s.tx.HashDelete(s.key, run)
		return
	}
	s.write(run, e) // with the life of the counters
}

func (s *step) forgetBuilding(all map[string]string) {
	s.tx.HashDelete(s.key, fieldBuild)
	for field := range all {
		if strings.HasPrefix(field, prefixTold) {
			s.tx.HashDelete(s.key, field)
		}
	}
}
