package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"
)

const (
	firstPause = 50 * time.Millisecond
	longPause  = 500 * time.Millisecond
	steady     = 5 * time.Second // a line that lived this long was a good one
)

// keep holds a line to the server until the cache is closed: it makes one, waits
// for its loss, makes the next. It calls tried after the first attempt.
func (v *Valkey) keep(tried func()) {
	var away time.Time // zero while the server is there
	pause := firstPause
	for {
		began := clockNow()
		cause := v.live(&away, tried)
		if v.gone.Err() != nil {
			return
		}
		v.lost(&away, cause)
		if clockNow()-began > steady {
			pause = firstPause
		}
		pause = v.sleep(pause)
	}
}

// live makes a line and attends to it; it returns why there is none any more.
func (v *Valkey) live(away *time.Time, tried func()) error {
	defer tried()
	l, err := v.connect()
	if err != nil {
		return err
	}
	v.back(away)
	v.publish(l)
	tried()
	return v.attend(l)
}

// connect makes a line whose server answers.
func (v *Valkey) connect() (*line, error) {
	l := newLine(v.timeout)
	defer context.AfterFunc(v.gone, func() { l.lose(errClosed) })()
	options := v.options
	options.DialCtxFn = l.dial
	client, err := rueidis.NewClient(options)
	if err != nil {
		l.lose(err)
		return nil, err
	}
	l.carry(client)
	if err := l.greet(); err != nil {
		l.lose(err)
		v.dispose(l)
		return nil, err
	}
	return l, nil
}

var errReplica = errors.New("it is a read-only replica")

// greet makes sure that the server takes commands, also writing ones.
func (l *line) greet() error {
	ctx, cancel := context.WithTimeout(l.ctx, dialTimeout)
	defer cancel()
	if err := l.client.Do(ctx, l.client.B().Ping().Build()).Error(); err != nil {
		return err
	}
	if l.cluster {
		return nil
	}
	about, err := l.client.Do(ctx, l.client.B().Arbitrary("HELLO").Build()).AsMap()
	if _, unknown := rueidis.IsRedisErr(err); unknown {
		return nil // a server before 6 does not say
	}
	if err != nil {
		return err
	}
	role := about["role"]
	if said, _ := role.ToString(); said == "replica" || said == "slave" {
		return errReplica
	}
	return nil
}

// attend waits until the line is lost, and returns why.
func (v *Valkey) attend(l *line) error {
	select {
	case <-l.ctx.Done():
	case <-v.gone.Done():
		l.lose(errClosed)
	}
	v.line.Store(nil)
	v.dispose(l)
	return context.Cause(l.ctx)
}

// dispose ends what the client of a lost line still runs.
func (v *Valkey) dispose(l *line) {
	v.work.Go(l.client.Close)
}

// publish gives the line to calls and watches.
func (v *Valkey) publish(l *line) {
	v.line.Store(l)
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *Valkey) lost(away *time.Time, err error) {
	if !away.IsZero() {
		return
	}
	*away = time.Now()
	v.log.Warn("cache is away", "address", v.address, "error", fmt.Sprint(err))
}

func (v *Valkey) back(away *time.Time) {
	if away.IsZero() {
		return
	}
	v.log.Info("cache is back", "address", v.address, "after", time.Since(*away).Round(time.Millisecond))
	*away = time.Time{}
}

// sleep waits for a pause, give or take a fifth, and returns the next one.
func (v *Valkey) sleep(pause time.Duration) time.Duration {
	timer := time.NewTimer(pause*4/5 + rand.N(pause*2/5))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-v.gone.Done():
	}
	return min(2*pause, longPause)
}
