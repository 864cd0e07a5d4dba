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
	for attempt := 0; ; attempt++ {
		began := clockNow()
		cause := v.live(attempt, &away, tried)
		if v.gone.Err() != nil {
			tried()
			return
		}
		v.lost(&away, cause)
		tried()
		if clockNow()-began > steady {
			pause = firstPause
		}
		pause = v.sleep(pause)
	}
}

// live makes a line and attends to it; it returns why there is none any more.
func (v *Valkey) live(attempt int, away *time.Time, tried func()) error {
	l, err := v.connect(attempt)
	if err != nil {
		return err
	}
	v.back(away)
	v.publish(l)
	tried()
	return v.attend(l)
}

// connect makes a line to a server that takes commands, also writing ones. It
// asks one node what it is before it treats it as part of a cluster.
func (v *Valkey) connect(attempt int) (*line, error) {
	options := v.options
	options.InitAddress = []string{v.options.InitAddress[attempt%len(v.options.InitAddress)]}
	options.ForceSingleClient = true
	l, err := v.dial(options)
	if err != nil {
		return nil, err
	}
	mode, err := l.greet()
	if err == nil && mode != "cluster" && len(v.options.InitAddress) > 1 {
		err = errNoCluster
	}
	if err == nil && mode != "cluster" {
		return l, nil
	}
	l.close(err)
	if err != nil {
		return nil, err
	}
	return v.dial(v.options)
}

func (v *Valkey) dial(options rueidis.ClientOption) (*line, error) {
	l := newLine(v.timeout, v.patience)
	defer context.AfterFunc(v.gone, func() { l.lose(errClosed) })()
	options.DialCtxFn = l.dial
	client, err := rueidis.NewClient(options)
	if client != nil {
		l.carry(client)
	}
	if err != nil {
		l.close(err)
		return nil, err
	}
	return l, nil
}

var (
	errReplica   = errors.New("it is a read-only replica")
	errSentinel  = errors.New("it is a sentinel, not a server")
	errNoCluster = errors.New("it is no cluster: several nodes may be named for a cluster only")
)

// greet asks the server whether it takes commands and what it is: "cluster", or
// anything else.
func (l *line) greet() (mode string, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, max(dialTimeout, l.timeout))
	defer cancel()
	if err := l.client.Do(ctx, l.client.B().Ping().Build()).Error(); err != nil {
		return "", err
	}
	about, err := l.client.Do(ctx, l.client.B().Arbitrary("HELLO").Build()).AsMap()
	if _, unknown := rueidis.IsRedisErr(err); unknown {
		return l.greetOld(ctx)
	}
	if err != nil {
		return "", err
	}
	role, server := about["role"], about["mode"]
	mode, _ = server.ToString()
	switch said, _ := role.ToString(); {
	case mode == "sentinel":
		return "", errSentinel
	case mode != "cluster" && (said == "replica" || said == "slave"):
		return "", errReplica
	}
	return mode, nil
}

// greetOld asks a server that has no HELLO, or hides it.
func (l *line) greetOld(ctx context.Context) (mode string, err error) {
	err = l.client.Do(ctx, l.client.B().ClusterInfo().Build()).Error()
	if _, refused := rueidis.IsRedisErr(err); refused {
		return "standalone", nil
	}
	return "cluster", err
}

// attend waits until the line is lost, and returns why.
func (v *Valkey) attend(l *line) error {
	select {
	case <-l.ctx.Done():
	case <-v.gone.Done():
	}
	v.line.Store(nil)
	l.close(errClosed)
	return context.Cause(l.ctx)
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
