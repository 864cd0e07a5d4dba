package budget

// limitCount is how many limits there are: llm.LimitNames, whose order the
// arguments of reserve and the checks have.
const limitCount = 9

const (
	atConcurrent = iota
	atRequestsPerMinute
	atTokensPerMinute
	atRequestsPerDay
	atTokensPerDay
	atCostPerDay
	atRequestsPerMonth
	atTokensPerMonth
	atCostPerMonth
)

// none is a limit that is not set.
const none = -1

// refusal is a limit that a run does not fit, with what is spent and reserved of
// it by others, and the time in milliseconds from which it would fit; 0 when no
// time alone helps.
type refusal struct {
	limit           int
	spent, reserved int64
	resets          int64
}

// reserve sets what a run may use. Its arguments are the run, its day and month,
// what it asks for (tokens and nano-dollars), and the limits.
func (s *step) reserve(args []string) ([]string, error) {
	run, day, month := args[0], args[1], args[2]
	in := packed{rest: args[3]}
	asked := sums{requests: 1, tokens: in.number(), nano: in.number()}
	limits, ok := readCaps(args[4])
	if !in.done() || !ok {
		return nil, errScriptArguments
	}
	if !s.ready(day, month) {
		return s.claim(), nil
	}
	own, found := s.entry(run)
	if found && own.state == stateSettled {
		return s.answer(codeOver, day, month), nil
	}
	if found && own.state == stateCharged { // its replica was only slow
		s.both(own.day, own.month, func(t *tally) { t.spent.subtract(own.amount) })
		own.state, own.expires = stateLive, s.now+s.lease
		s.hold(own)
		s.write(run, own)
	}
	if !found {
		own = entry{state: stateLive, day: day, month: month}
	}
	if r, refused := s.check(own, found, asked, limits); refused {
		return s.answer(codeRefused, day, month, pack(int64(r.limit), r.spent, r.reserved, r.resets)), nil
	}
	s.grant(run, own, found, asked, limits)
	return s.answer(codeGranted, day, month), nil
}

// ready reports whether the counters of both periods are known.
func (s *step) ready(day, month string) bool {
	if !s.known {
		return false
	}
	d := s.begun(day, s.head.day).known
	return s.begun(month, s.head.month).known && d
}

// check finds the first limit that the run does not fit. What the run holds
// already is not in its way, and to need no more than that is never refused; nor
// is what costs nothing, by a limit of costs (CST-06).
func (s *step) check(own entry, found bool, asked sums, limits [limitCount]int64) (refusal, bool) {
	if l := limits[atConcurrent]; l != none && !found && s.head.live+1 > l {
		return refusal{limit: atConcurrent, reserved: s.head.live}, true
	}
	if r, refused := s.checkMinute(own, found, asked, limits); refused {
		return r, true
	}
	day, month := s.period(own.day).tally, s.period(own.month).tally
	for i, t := range [2]tally{day, month} {
		at := atRequestsPerDay + i*(atRequestsPerMonth-atRequestsPerDay)
		if found {
			t.reserved.subtract(own.amount)
		}
		if l := limits[at]; l != none && !found && t.spent.requests+t.reserved.requests+1 > l {
			return refusal{limit: at, spent: t.spent.requests, reserved: t.reserved.requests}, true
		}
		if l := limits[at+1]; l != none && asked.tokens > own.amount.tokens && t.spent.tokens+t.reserved.tokens+asked.tokens > l {
			return refusal{limit: at + 1, spent: t.spent.tokens, reserved: t.reserved.tokens}, true
		}
		if l := limits[at+2]; l != none && asked.nano > own.amount.nano && t.spent.nano+t.reserved.nano+asked.nano > l {
			return refusal{limit: at + 2, spent: t.spent.nano, reserved: t.reserved.nano}, true
		}
	}
	return refusal{}, false
}

func (s *step) checkMinute(own entry, found bool, asked sums, limits [limitCount]int64) (refusal, bool) {
	perMinute, tokens := limits[atRequestsPerMinute], limits[atTokensPerMinute]
	if perMinute == none && tokens == none {
		return refusal{}, false
	}
	w := s.window()
	if perMinute != none && !found {
		if n := w.requests; n+1 > perMinute {
			return refusal{limit: atRequestsPerMinute, spent: n, resets: w.fits(perMinute, 1, requestsOf)}, true
		}
	}
	if tokens == none || asked.tokens <= own.amount.tokens {
		return refusal{}, false
	}
	if s.inWindow(own) {
		others := *w
		w = &others
		w.add(min(own.at, s.now/1000), 0, -own.amount.tokens)
	}
	if n := w.tokens; n+asked.tokens > tokens {
		return refusal{limit: atTokensPerMinute, spent: n, resets: w.fits(tokens, asked.tokens, tokensOf)}, true
	}
	return refusal{}, false
}

func (s *step) inWindow(e entry) bool { return e.at > 0 && e.at+windowSeconds >= s.now/1000 }

// grant reserves. The request and its tokens are counted in the second in which
// the run first asked; more tokens, after that has left the window, in this one.
func (s *step) grant(run string, own entry, found bool, asked sums, limits [limitCount]int64) {
	if limits[atRequestsPerMinute] != none || limits[atTokensPerMinute] != none || own.at > 0 {
		w, second := s.window(), s.now/1000
		switch {
		case !found:
			own.at, own.counted = second, true
			w.add(second, 1, asked.tokens)
		case s.inWindow(own):
			w.add(min(own.at, second), 0, asked.tokens-own.amount.tokens)
		default:
			own.at, own.counted = second, false
			w.add(second, 0, asked.tokens)
		}
		s.setWindow()
	}
	if found {
		s.release(own)
	}
	own.amount, own.expires = asked, s.now+s.lease
	s.hold(own)
	s.write(run, own)
}

// claim says who rebuilds lost counters: the first that asks, until it has died.
func (s *step) claim() []string {
	if _, until := s.building(); until > s.now && until <= s.now+claimLife {
		return s.said(codeUnknown, toWait)
	}
	if !s.known {
		s.clear()
	}
	s.tx.HashSet(s.key, fieldBuild, join(s.born(), number(s.now+claimLife)), buildLife)
	s.tx.Publish(hints, "ask "+s.key)
	return s.said(codeUnknown, toRebuild)
}

// building returns whose rebuilding is under way, and until when it is.
func (s *step) building() (token string, until int64) {
	text, _ := s.tx.HashGet(s.key, fieldBuild)
	r := reader{rest: text}
	token, until = r.word(), r.number()
	if !r.done() {
		return "", 0
	}
	return token, until
}

// clear forgets all but what dead replicas are charged with.
func (s *step) clear() {
	for field, text := range s.tx.HashAll(s.key) {
		if e, ok := decodeEntry(text); !ok || e.state != stateCharged || !isRun(field) {
			s.tx.HashDelete(s.key, field)
		}
	}
	s.several, s.more, s.looked = 0, nil, false
}
