package private

import (
	"context"
	"sync"
	"time"
)

// A server that ends by itself is started again at once; one that does so
// again and again, or cannot be started, after longer and longer pauses.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
	// steady is how long a server must have run for its end to be a new story.
	steady = time.Minute
)

// keeper keeps the server running: one that was killed, for want of memory or by
// mistake, is started again on the same data and at the same address.
type keeper struct {
	cfg     Config
	door    door
	place   place
	sockets string

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when nobody keeps the server any more

	mu      sync.Mutex
	process *process
}

// keep keeps a server that answers, until release.
func keep(cfg Config, d door, p place, sockets string, first *process) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{
		cfg: cfg, door: d, place: p, sockets: sockets,
		ctx: ctx, cancel: cancel, done: make(chan struct{}), process: first,
	}
	go k.watch()
	return k
}

// current is the running server, or the last that ran.
func (k *keeper) current() *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process
}

// release leaves the server to its caller.
func (k *keeper) release() {
	k.cancel()
	<-k.done
}

func (k *keeper) watch() {
	defer close(k.done)
	pause := time.Duration(0)
	for began := time.Now(); k.awaitEnd(); began = time.Now() {
		if time.Since(began) >= steady {
			pause = 0
		}
		if pause = k.restart(pause); k.ctx.Err() != nil {
			return
		}
	}
}

// awaitEnd returns true when the server has ended by itself.
func (k *keeper) awaitEnd() bool {
	ended := k.current()
	select {
	case <-k.ctx.Done():
		return false
	case <-ended.done:
	}
	if k.ctx.Err() != nil {
		return false
	}
	k.cfg.Log.Error("private database ended by itself, it is started again", "error", ended.err, "last_line", ended.log.last())
	return true
}

// restart starts the server anew until it answers or nobody keeps it any more,
// and returns how long the next pause is.
func (k *keeper) restart(pause time.Duration) time.Duration {
	for said := ""; k.rest(pause); {
		pause = min(max(2*pause, firstPause), longestPause)
		began := time.Now()
		s, err := k.relaunch()
		if err == nil {
			k.mu.Lock()
			k.process = s
			k.mu.Unlock()
			k.cfg.Log.Info("private database is back", "data_dir", k.place.root, "pid", s.pid(), "took", time.Since(began))
			return pause
		}
		if k.ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			k.cfg.Log.Error("private database cannot be started again", "data_dir", k.place.root, "error", err)
		}
	}
	return pause
}

// relaunch clears away what is left of the last server and starts a new one.
func (k *keeper) relaunch() (*process, error) {
	if err := endOrphans(k.ctx, k.door.account, k.place, k.cfg.Log); err != nil {
		return nil, err
	}
	if err := prepareSocketDir(k.sockets, k.door.account); err != nil {
		return nil, err
	}
	return launchReady(k.ctx, k.cfg, k.door, k.place, k.sockets)
}

// rest reports false when nobody keeps the server any more.
func (k *keeper) rest(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return k.ctx.Err() == nil
	case <-k.ctx.Done():
		return false
	}
}
