package budget

import "strings"

// settle puts the truth in the place of a reservation. Its arguments are the
// run, its day and month, the birth of the counters that it was reserved in (empty
// when it may not have been), the number of the message and the truth, and whether
// the run may still be asked for by a message that is under way.
//
// A run of these very counters that is not there has been settled before. One of
// others is new here, unless its message was heard before: it is counted. A run
// without a name is the sum of several such.
func (s *step) settle(args []string) ([]string, error) {
	run, day, month, birth := args[0], args[1], args[2], args[3]
	in := packed{rest: args[4]}
	numbered, truth := in.number(), in.sums()
	if !in.done() {
		return nil, errScriptArguments
	}
	old, found := entry{}, false
	if run != "" {
		old, found = s.entry(run)
	}
	if !s.known {
		if found && old.state == stateLive { // it was told for the rebuilding
			old.state, old.amount, old.expires = stateSettled, truth, s.now+settledLife
			s.tx.HashSet(s.key, run, old.encode(), buildLife)
		}
		return s.said(codeUnknown), nil
	}
	heard := s.heard(birth, numbered)
	switch {
	case found:
		s.replace(old, truth)
	case birth == s.head.birth || heard:
		return s.said(codeStale), nil
	default:
		old = entry{day: day, month: month}
		s.ready(day, month)
		s.both(day, month, func(t *tally) { t.spent.add(truth) })
	}
	s.dismiss(run, old, truth, args[5] == "1")
	return s.said(codeDone), nil
}

// heard notes the number of a message, and reports whether it was heard before.
// Runs of these very counters need no number.
func (s *step) heard(birth string, numbered int64) bool {
	if birth == s.head.birth || numbered == 0 {
		return false
	}
	field := prefixHeard + s.replica
	text, _ := s.tx.HashGet(s.key, field)
	r := reader{rest: text}
	last := r.number()
	if r.number(); r.done() && numbered <= last {
		return true
	}
	s.tx.HashSet(s.key, field, join(number(numbered), number(s.now)), life)
	return false
}

// replace counts the truth of a run, whatever was counted for it until now.
func (s *step) replace(old entry, truth sums) {
	if old.state == stateLive {
		s.release(old)
	} else {
		s.both(old.day, old.month, func(t *tally) { t.spent.subtract(old.amount) })
	}
	s.both(old.day, old.month, func(t *tally) { t.spent.add(truth) })
	if !s.inWindow(old) {
		return
	}
	requests := int64(0)
	if old.counted {
		requests = truth.requests - old.amount.requests
	}
	s.window().add(min(old.at, s.now/1000), requests, truth.tokens-old.amount.tokens)
	s.setWindow()
}

// dismiss forgets a run that is settled, or keeps it for a while: where it may be
// asked for again, and where a period of its is still to be rebuilt.
func (s *step) dismiss(run string, old entry, truth sums, wanted bool) {
	switch {
	case run == "":
	case wanted || !s.period(old.day).known || !s.period(old.month).known:
		old.state, old.amount, old.expires = stateSettled, truth, s.now+settledLife
		s.write(run, old)
	default:
		s.tx.HashDelete(s.key, run)
	}
}

// renew keeps reservations whose calls are alive. Its arguments are a day and a
// month, to say how they stand, and the runs. It answers those that are not
// there.
func (s *step) renew(args []string) []string {
	if !s.known {
		return s.said(codeUnknown)
	}
	var missing []string
	for _, run := range args[2:] {
		e, found := s.entry(run)
		switch {
		case !found:
			missing = append(missing, run)
		case e.state == stateLive:
			e.expires = s.now + s.lease
			s.write(run, e)
		}
	}
	return s.answer(codeDone, args[0], args[1], missing...)
}

// look says how the scope stands.
func (s *step) look(args []string) []string {
	if !s.ready(args[0], args[1]) {
		return s.claim()
	}
	return s.answer(codeDone, args[0], args[1])
}

// lose gives up counters that were begun without knowing what was spent, so that
// they are rebuilt.
func (s *step) lose() []string {
	if s.known && s.head.unknown {
		s.known = false
		s.clear()
		return s.said(codeDone)
	}
	return s.said(codeStale)
}

func wholes(args []string) (sums, error) {
	var s sums
	for i, to := range [3]*int64{&s.requests, &s.tokens, &s.nano} {
		n, err := whole(args[i])
		if err != nil {
			return sums{}, err
		}
		*to = n
	}
	return s, nil
}

// isRun reports whether a field is a run's.
func isRun(field string) bool { return strings.HasPrefix(field, prefixRun) }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
