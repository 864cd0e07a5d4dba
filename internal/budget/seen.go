package budget

// seen is what this replica knows of what its scope has spent.
type seen struct {
	day, month string // of the last answer of the store
	numbers    numbers

	ofDay, ofMonth memory
}

// memory is what this replica knows of what was spent in a period.
type memory struct {
	period string
	before sums // spent when this replica first looked
	used   sums // settled here since
	last   sums // spent when it last looked
}

// saw notes how the store has said that the scope stands.
func (p *purse) saw(period Period, n numbers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.note(period, n)
}

func (s *seen) note(period Period, n numbers) {
	s.day, s.month, s.numbers = period.Day, period.Month, n
	s.ofDay.look(period.Day, n.day.spent)
	s.ofMonth.look(period.Month, n.month.spent)
}

func (s *seen) settled(period Period, used sums) {
	s.ofDay.use(period.Day, used)
	s.ofMonth.use(period.Month, used)
}

func (m *memory) look(period string, spent sums) {
	if period > m.period {
		*m = memory{period: period, before: spent}
	}
	if period == m.period {
		m.last = spent
	}
}

func (m *memory) use(period string, used sums) {
	if period > m.period {
		*m = memory{period: period}
	}
	if period == m.period {
		m.used.add(used)
	}
}

// taken is what all others have spent or reserved, and this replica has spent.
func (k seen) taken(period Period, alive map[string]entry) found {
	f := found{day: k.numbers.day.spent, month: k.numbers.month.spent}
	f.day.add(k.numbers.day.reserved)
	f.month.add(k.numbers.month.reserved)
	for _, e := range alive {
		if e.day == period.Day {
			f.day.subtract(e.amount)
		}
		if e.month == period.Month {
			f.month.subtract(e.amount)
		}
	}
	return f
}

// tell is what is known, in words for the replica that rebuilds the counters.
func (s seen) tell() string {
	if s.ofDay.period == "" {
		return ""
	}
	return join(s.ofDay.tell(), s.ofMonth.tell())
}

func (m memory) tell() string {
	return join(m.period, m.before.encode(), m.used.encode(), m.last.encode())
}

func readMemory(r *reader) memory {
	return memory{period: r.word(), before: r.sums(), used: r.sums(), last: r.sums()}
}

// guess is the least that was spent, as the replicas know it between them, where
// nobody else does.
func (h hearing) guess(period Period) found {
	var f found
	for name, e := range h.entries {
		if e.day == period.Day {
			f.day.add(e.amount)
		}
		if e.month == period.Month {
			f.month.add(e.amount)
		}
		f.written = append(f.written, name)
	}
	var days, months []memory
	for _, text := range h.replicas {
		r := reader{rest: text}
		day, month := readMemory(&r), readMemory(&r)
		if !r.done() {
			continue
		}
		days, months = append(days, day), append(months, month)
	}
	f.day.atLeast(remembered(days, period.Day))
	f.month.atLeast(remembered(months, period.Month))
	return f
}

// remembered is the least that was spent in a period: what a replica found spent
// when it first looked, and what it and those have used that looked later. Who
// found less came earlier.
func remembered(all []memory, period string) sums {
	var most sums
	for _, first := range all {
		if first.period != period {
			continue
		}
		spent := first.before
		for _, m := range all {
			if m.period == period && m.before.requests >= first.before.requests {
				spent.add(m.used)
			}
		}
		most.atLeast(spent)
		most.atLeast(first.last)
	}
	return most
}

func (s *sums) atLeast(o sums) {
	s.requests, s.tokens, s.nano = max(s.requests, o.requests), max(s.tokens, o.tokens), max(s.nano, o.nano)
}
