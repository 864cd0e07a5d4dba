package replicatest

import (
	"bytes"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// The questions that a replica answers.
const (
	opAcquire = "acquire"
	opDone    = "done"
	opCommand = "command"
	opCircuit = "circuit"
	opShared  = "shared"
	opEvents  = "events"
	opFinish  = "finish"
	opLoad    = "load"
	opRest    = "rest"
	opAwait   = "await"
)

type question struct {
	Op      string
	Key     string
	Permit  string
	Outcome breaker.Outcome
	Command breaker.Command
	Load    Load
	State   breaker.State
	Limit   time.Duration
}

type reply struct {
	Error   string
	Grant   Grant
	Settled string
	At      time.Time
	Circuit breaker.Snapshot
	Shared  breaker.SharedState
	Events  []Told
	Tally   Tally
}

// Grant is the answer to a call that asks to go.
type Grant struct {
	Refusal    *breaker.Refusal // nil: it may go
	Probe      bool
	Generation uint64
	At         time.Time // of the answer
}

// Told is an event and when it was told, which is later than when it happened.
type Told struct {
	breaker.Event
	ToldAt time.Time
}

// output keeps what a process writes, for the error that tells of its failure.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
