package idempotency

import (
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// keyScript is every step of one idempotency key. A store runs its Lua; the Go
// below is the same step, for a store in this process and for the test that holds
// the Lua to it, byte by byte.
//
// KEYS: the record. ARGV: the step, the time in milliseconds where the store's own
// is not wanted, the token and the fingerprint of who asks, the key's name, and
// the arguments of the step. The answer: what became of it, the token that it is
// said of, the milliseconds left of its lease, and what is kept under it: in how
// many chunks, or at once.
var keyScript = &cache.Script{Name: "idempotency", Lua: keyLua, Go: runKey}

//go:embed key.lua
var keyLua string

// hints is the channel on which the names of keys are told that somebody waits
// for.
const hints = "ik:hints"

// The steps.
const (
	stepClaim = "claim"
	stepRenew = "renew"
	stepStore = "store"
	stepFree  = "free"
)

// What becomes of them.
const (
	codeOwned     = "owned"
	codeTaken     = "taken" // owned; whoever owned it before has stopped renewing
	codeRunning   = "running"
	codeMismatch  = "mismatch"
	codeDone      = "done"
	codeOversized = "oversized"
	codeFailed    = "failed"
	codeRenewed   = "renewed"
	codeStored    = "stored"
	codeFreed     = "freed"
	codeFenced    = "fenced" // another owner is there, or has stored
	codeLost      = "lost"   // it is not this owner's any more
)

// The states of a record.
const (
	stateRunning   = "r"
	stateDone      = "d"
	stateOversized = "l"
	stateFree      = "f" // its last owner failed
)

// none stands where a record has no token.
const none = "-"

var errArguments = errors.New("the idempotency script was called with arguments that it cannot read")

// record is what is kept of a key. Its payload is the answer that is done, or how
// the claim failed whose token is failed; that outlives the next claim, for those
// who waited.
type record struct {
	state   string
	token   string
	print   string
	ends    int64 // of the lease, in milliseconds
	heard   bool  // somebody waits on another replica
	chunks  int
	failed  string
	payload string
}

func decode(text string) *record {
	head, payload, whole := strings.Cut(text, "\n")
	f := strings.Split(head, " ")
	if !whole || len(f) != 7 || f[1] == "" || f[2] == "" || f[6] == "" {
		return nil
	}
	ends, err := digits(f[3], 15)
	chunks, err2 := digits(f[5], 6)
	if errors.Join(err, err2) != nil || f[4] != "0" && f[4] != "1" {
		return nil
	}
	switch f[0] {
	case stateRunning, stateDone, stateOversized, stateFree:
	default:
		return nil
	}
	return &record{state: f[0], token: f[1], print: f[2], ends: ends, heard: f[4] == "1", chunks: int(chunks), failed: f[6], payload: payload}
}

func digits(text string, most int) (int64, error) {
	if len(text) > most || strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, errArguments
	}
	return strconv.ParseInt(text, 10, 64)
}

func (r *record) encode() string {
	heard := "0"
	if r.heard {
		heard = "1"
	}
	return strings.Join([]string{r.state, r.token, r.print, strconv.FormatInt(r.ends, 10), heard, strconv.Itoa(r.chunks), r.failed}, " ") + "\n" + r.payload
}

// step is one run of the script.
type step struct {
	tx                 cache.Tx
	key                string
	now                int64
	token, print, name string
	r                  *record // nil: there is none
}

func runKey(tx cache.Tx, keys, args []string) ([]string, error) {
	if len(keys) != 1 || len(args) < 6 {
		return nil, errArguments
	}
	s := &step{tx: tx, key: keys[0], now: tx.Now().UnixMilli(), token: args[2], print: args[3], name: args[4]}
	if args[1] != "" {
		var err error
		if s.now, err = digits(args[1], 15); err != nil {
			return nil, err
		}
	}
	if text, there := tx.Get(s.key); there {
		s.r = decode(text)
	}
	rest := args[5:]
	switch {
	case args[0] == stepClaim && len(rest) == 4:
		return s.claim(rest)
	case args[0] == stepRenew && len(rest) == 1:
		return s.renew(rest)
	case args[0] == stepStore && len(rest) == 4:
		return s.store(rest)
	case args[0] == stepFree && len(rest) == 2:
		return s.free(rest)
	default:
		return nil, errArguments
	}
}

// claim gives the key to who asks, or says who has it and what came of it.
func (s *step) claim(args []string) ([]string, error) {
	lease, err := digits(args[0], 15)
	if err != nil {
		return nil, err
	}
	awaited, lost, waits := args[1], args[2], args[3] == "1"
	code, r := codeOwned, s.r
	if r == nil {
		return s.own(code, lease), nil
	}
	switch r.state {
	case stateFree, stateRunning:
		if awaited != "" && r.failed == awaited {
			return told(codeFailed, r, 0), nil
		}
		if r.state == stateFree || r.token == s.token {
			break
		}
		if s.now < r.ends {
			return s.running(lease, waits), nil
		}
		code = codeTaken
	case stateDone, stateOversized:
		switch {
		case r.token == lost:
		case r.print != s.print:
			return told(codeMismatch, nil, 0), nil
		case r.state == stateDone:
			return told(codeDone, r, 0), nil
		case r.token == awaited:
			return told(codeOversized, r, 0), nil
		}
	}
	return s.own(code, lease), nil
}

// running says that somebody else is at it.
func (s *step) running(lease int64, waits bool) []string {
	r := s.r
	if r.print != s.print {
		return told(codeMismatch, nil, 0)
	}
	if waits && !r.heard {
		r.heard = true
		s.write(r, r.ends+lease-s.now)
	}
	return told(codeRunning, &record{token: r.token, chunks: r.chunks}, r.ends-s.now)
}

func (s *step) own(code string, lease int64) []string {
	mine := &record{state: stateRunning, token: s.token, print: s.print, ends: s.now + lease, failed: none}
	if r := s.r; r != nil && (r.state == stateFree || r.state == stateRunning) {
		mine.failed, mine.payload = r.failed, r.payload
	}
	s.write(mine, 2*lease)
	return told(code, &record{token: s.token}, 0)
}

// renew keeps the key for an owner that is alive. One whose record the store has
// lost has it again.
func (s *step) renew(args []string) ([]string, error) {
	lease, err := digits(args[0], 15)
	if err != nil {
		return nil, err
	}
	r := s.r
	switch {
	case r == nil:
		r = &record{state: stateRunning, token: s.token, print: s.print, heard: true, failed: none}
	case r.state != stateRunning || r.token != s.token:
		return told(codeLost, nil, 0), nil
	}
	r.ends = s.now + lease
	s.write(r, 2*lease)
	return told(codeRenewed, nil, 0), nil
}

// store keeps the answer of an owner, unless another one has come meanwhile.
func (s *step) store(args []string) ([]string, error) {
	chunks, err := digits(args[1], 6)
	ttl, err2 := digits(args[2], 15)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if r := s.r; r != nil && (r.state == stateRunning || r.state == stateDone) && r.token != s.token {
		return told(codeFenced, nil, 0), nil
	}
	s.write(&record{state: args[0], token: s.token, print: s.print, chunks: int(chunks), failed: none, payload: args[3]}, ttl)
	s.tell()
	return told(codeStored, nil, 0), nil
}

// free gives the key back, with how the owner failed for those who waited.
func (s *step) free(args []string) ([]string, error) {
	ttl, err := digits(args[0], 15)
	if err != nil {
		return nil, err
	}
	if r := s.r; r == nil || r.state != stateRunning || r.token != s.token {
		return told(codeLost, nil, 0), nil
	}
	s.write(&record{state: stateFree, token: s.token, print: s.print, failed: s.token, payload: args[1]}, ttl)
	s.tell()
	return told(codeFreed, nil, 0), nil
}

func (s *step) write(r *record, ttl int64) {
	s.tx.Set(s.key, r.encode(), time.Duration(ttl)*time.Millisecond)
}

// tell tells those who wait on other replicas, if there can be any.
func (s *step) tell() {
	if s.r == nil || s.r.heard || s.r.token != s.token {
		s.tx.Publish(hints, s.name)
	}
}

func told(code string, r *record, left int64) []string {
	if r == nil {
		r = &record{}
	}
	return []string{code, r.token, strconv.FormatInt(left, 10), strconv.Itoa(r.chunks), r.payload}
}
