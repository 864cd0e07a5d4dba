package cache

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// resubscribe is how long a watch waits after a subscription that ended although
// its line is there.
const resubscribe = 100 * time.Millisecond

// Watch is described by Cache. The channel stays subscribed when the watch ends:
// channels are few and watched as long as the process lives.
func (v *Valkey) Watch(ctx context.Context, channel string, heard func(message string)) error {
	if v.closed.Load() {
		return wrap("watch", errClosed)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inbox := make(chan string, backlog)
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.subscribe(ctx, channel, inbox)
	}()
	defer func() { <-done }()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-v.gone.Done():
			return errClosed
		case message := <-inbox:
			heard(message)
		}
	}
}

// subscribe puts messages into the inbox, over one line after the other. It
// never waits for whoever hears them: all calls share the connection.
func (v *Valkey) subscribe(ctx context.Context, channel string, inbox chan<- string) {
	for {
		l := v.await(ctx)
		if l == nil {
			return
		}
		_ = l.client.Receive(ctx, l.client.B().Subscribe().Channel(channel).Build(),
			func(m rueidis.PubSubMessage) { offer(inbox, m.Message) })
		select {
		case <-ctx.Done():
			return
		case <-l.ctx.Done():
		case <-time.After(resubscribe):
		}
	}
}

// await returns a line as soon as there is one, nil when ctx ends or the cache
// is closed.
func (v *Valkey) await(ctx context.Context) *line {
	for {
		v.mu.Lock()
		changed := v.changed
		v.mu.Unlock()
		if l := v.line.Load(); l != nil && l.ctx.Err() == nil {
			return l
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		case <-v.gone.Done():
			return nil
		}
	}
}
