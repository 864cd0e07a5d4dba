package cachetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// ear keeps what a watch heard.
type ear struct {
	mu       sync.Mutex
	messages []string
}

func (e *ear) hear(message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.messages = append(e.messages, message)
}

func (e *ear) heard() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.messages
}

// listen watches a channel until the test ends.
func listen(t *testing.T, c cache.Cache, channel string, hear func(string)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := c.Watch(ctx, channel, hear); !errors.Is(err, context.Canceled) {
			t.Errorf("watch of %s ended with %v", channel, err)
		}
	})
	stop = func() { cancel(); group.Wait() }
	t.Cleanup(stop)
	return stop
}

func watch(t *testing.T, c cache.Cache) {
	var one, two, other ear
	listen(t, c, "channel", one.hear)
	listen(t, c, "channel", two.hear)
	listen(t, c, "other", other.hear)

	eventually(t, "both watches hear", func() bool {
		mustRun(t, c, publish, []string{"k"}, "channel", "try")
		return len(one.heard()) > 0 && len(two.heard()) > 0
	})
	want := []string{"\x00\r\n", "", "last"}
	for _, message := range want {
		mustRun(t, c, publish, []string{"k"}, "channel", message)
	}
	for _, e := range []*ear{&one, &two} {
		eventually(t, "the last message arrives", func() bool {
			heard := e.heard()
			return heard[len(heard)-1] == "last"
		})
		heard := e.heard()
		wantReply(t, heard[len(heard)-3:], want...)
	}
	if got := other.heard(); len(got) != 0 {
		t.Errorf("another channel's watch heard %q", got)
	}
}

func slowWatch(t *testing.T, c cache.Cache) {
	stuck, release := make(chan struct{}, 1), make(chan struct{})
	stop := listen(t, c, "channel", func(string) {
		offer(stuck)
		<-release
	})
	eventually(t, "the watch hears", func() bool {
		mustRun(t, c, publish, []string{"k"}, "channel", "try")
		return len(stuck) > 0
	})

	for i := range 1000 {
		mustRun(t, c, publish, []string{"k"}, "channel", strconv.Itoa(i))
	}
	mustSet(t, c, "k", "v", lifetime)
	wantValue(t, c, "k", "v")

	close(release)
	stop()
}

func watchEnds(t *testing.T, c cache.Cache) {
	ctx, cancel := context.WithCancel(t.Context())
	cancelled, closed := make(chan error, 1), make(chan error, 1)
	var heard ear
	go func() { cancelled <- c.Watch(ctx, "channel", heard.hear) }()
	go func() { closed <- c.Watch(t.Context(), "channel", heard.hear) }()
	eventually(t, "a watch hears", func() bool {
		mustRun(t, c, publish, []string{"k"}, "channel", "try")
		return len(heard.heard()) > 0
	})

	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("a watch whose context ended returned %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; !errors.Is(err, cache.ErrUnavailable) {
		t.Errorf("a watch of a closed cache returned %v, want ErrUnavailable", err)
	}
}

func offer(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
