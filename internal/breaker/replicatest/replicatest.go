// Package replicatest runs replicas of the circuit breaker as real processes on
// one store, for tests and measurements of what only processes show: that they
// are killed, stopped and late. It knows nothing of what is measured.
package replicatest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// environment is the variable that makes a process a replica; it holds its
// Config.
const environment = "BREAKWATER_TEST_REPLICA"

// Config is what a replica is made of.
type Config struct {
	URL          string        // of the store
	StoreTimeout time.Duration // 0: the breaker's own
	Settings     breaker.Settings
}

// Main makes the process a replica if it was started as one, and does not return
// then. Whoever starts replicas calls it before anything else.
func Main() {
	text, ok := os.LookupEnv(environment)
	if !ok {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "replica:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Replica is a process that holds one registry of circuits. Its methods ask one
// thing at a time; they fail once the process has ended.
type Replica struct {
	cmd   *exec.Cmd
	said  output
	ended chan struct{}
	err   error // of its end

	mu  sync.Mutex
	in  *json.Encoder
	out *json.Decoder
	end func() error // of its input
}

// Start starts a replica, which is this program anew. It ends with this process,
// however that ends.
func Start(cfg Config) (*Replica, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &Replica{cmd: exec.Command(program), ended: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), environment+"="+string(text))
	r.cmd.Stderr = &r.said
	if err := r.launch(); err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	if _, err := r.ask(question{Op: opShared}); err != nil {
		r.Kill()
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	return r, nil
}

// launch starts the process on a thread that stays until it ends: where the
// kernel ends a child with its parent, it means the thread that made it.
func (r *Replica) launch() error {
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return err
	}
	// Not StdoutPipe, which Wait would close under a reader.
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	r.cmd.Stdout = write
	r.in, r.end, r.out = json.NewEncoder(in), in.Close, json.NewDecoder(read)
	endWithParent(r.cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(r.ended)
		err := r.cmd.Start()
		started <- errors.Join(err, write.Close())
		if err == nil {
			r.err = r.cmd.Wait()
		}
		_ = read.Close()
	}()
	return <-started
}

// ask asks and waits for the answer.
func (r *Replica) ask(q question) (reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var a reply
	err := r.in.Encode(q)
	if err == nil {
		err = r.out.Decode(&a)
	}
	if err != nil {
		return reply{}, fmt.Errorf("%s: the replica does not answer: %w; it said: %s", q.Op, err, r.said.String())
	}
	if a.Error != "" {
		return reply{}, fmt.Errorf("%s: %s", q.Op, a.Error)
	}
	return a, nil
}

// Acquire asks for a permit, which the replica keeps under a name. It returns
// the refusal when there is none.
func (r *Replica) Acquire(key, permit string) (Grant, error) {
	a, err := r.ask(question{Op: opAcquire, Key: key, Permit: permit})
	return a.Grant, err
}

// Done ends the call of a permit and returns what came of it.
func (r *Replica) Done(permit string, o breaker.Outcome) (string, error) {
	a, err := r.ask(question{Op: opDone, Permit: permit, Outcome: o})
	return a.Settled, err
}

// End is Done; it returns when the call ended, before anybody knew.
func (r *Replica) End(permit string, o breaker.Outcome) (time.Time, error) {
	a, err := r.ask(question{Op: opDone, Permit: permit, Outcome: o})
	return a.At, err
}

// Await waits until the replica sees a circuit in the state, and returns when
// it did; the zero time when it did not before the limit.
func (r *Replica) Await(key string, s breaker.State, limit time.Duration) (time.Time, error) {
	a, err := r.ask(question{Op: opAwait, Key: key, State: s, Limit: limit})
	return a.At, err
}

// Command passes a person's word on.
func (r *Replica) Command(key string, c breaker.Command) error {
	_, err := r.ask(question{Op: opCommand, Key: key, Command: c})
	return err
}

// Circuit looks at a circuit; a key that was never used reads as the zero value.
func (r *Replica) Circuit(key string) (breaker.Snapshot, error) {
	a, err := r.ask(question{Op: opCircuit, Key: key})
	return a.Circuit, err
}

// Shared tells how the replica stands with the store.
func (r *Replica) Shared() (breaker.SharedState, error) {
	a, err := r.ask(question{Op: opShared})
	return a.Shared, err
}

// Events takes the events that were told since they were taken last. They are
// told a little after they happen.
func (r *Replica) Events() ([]Told, error) {
	a, err := r.ask(question{Op: opEvents})
	return a.Events, err
}

// Finish stops the registry, so that nothing is told any more, and takes the
// events that Events has not. Circuits can be looked at still.
func (r *Replica) Finish() ([]Told, error) {
	a, err := r.ask(question{Op: opFinish})
	return a.Events, err
}

// Load begins to call, until Rest.
func (r *Replica) Load(l Load) error {
	_, err := r.ask(question{Op: opLoad, Load: l})
	return err
}

// Rest ends what Load began and returns what came of it.
func (r *Replica) Rest() (Tally, error) {
	a, err := r.ask(question{Op: opRest})
	return a.Tally, err
}

// Pause stops the process where it is; Resume lets it go on.
func (r *Replica) Pause() error  { return r.cmd.Process.Signal(syscall.SIGSTOP) }
func (r *Replica) Resume() error { return r.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process at once, also a paused one, and waits for its end.
func (r *Replica) Kill() {
	_ = r.cmd.Process.Signal(syscall.SIGKILL) // it may have ended already
	<-r.ended
}

// Stop lets the replica end in order. It returns an error when the process did
// not: the race detector's findings are one.
func (r *Replica) Stop() error {
	_ = r.end()
	overdue := time.AfterFunc(stopLimit, func() { _ = r.cmd.Process.Kill() })
	defer overdue.Stop()
	<-r.ended
	if r.err != nil {
		return fmt.Errorf("a replica ended with %w; it said: %s", r.err, r.said.String())
	}
	return nil
}

// stopLimit is how long a replica may take to end on a busy machine.
const stopLimit = 30 * time.Second
