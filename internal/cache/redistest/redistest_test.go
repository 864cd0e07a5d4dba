package redistest_test

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestServersOfTwoTestsAreSeparate(t *testing.T) {
	t.Parallel()
	one, other := redistest.Start(t), redistest.Start(t)

	if _, err := one.Do("SET", "only here", "\r\n\x00", "PX", "60000"); err != nil {
		t.Fatal(err)
	}
	if got := other.Keys(); len(got) != 0 {
		t.Errorf("a key written to one server shows on the other: %q", got)
	}
	if diff := cmp.Diff([]string{"only here"}, one.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if got := one.TTL("only here"); got <= 0 || got > time.Minute {
		t.Errorf("time to live: got %v, want up to a minute", got)
	}
	if got := one.TTL("absent"); got >= 0 {
		t.Errorf("time to live of an absent key: got %v, want a negative one", got)
	}
}

func TestRestartComesBackEmptyOnTheSamePort(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	before := s.Addr()
	if _, err := s.Do("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}

	s.Kill()
	if _, err := s.Do("PING"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart()

	if s.Addr() != before {
		t.Errorf("address: got %s, want %s", s.Addr(), before)
	}
	if got := s.Keys(); len(got) != 0 {
		t.Errorf("keys after a restart: %q", got)
	}
}

func TestThawedServerAnswersWhatItWasAskedFrozen(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "secret")

	s.Freeze()
	answered := make(chan any, 1)
	go func() {
		answer, _ := s.Do("PING")
		answered <- answer
	}()
	select {
	case answer := <-answered:
		t.Fatalf("a frozen server answered %v", answer)
	case <-time.After(100 * time.Millisecond):
	}
	s.Thaw()

	if got := <-answered; got != "PONG" {
		t.Errorf("answer after the thaw: got %v, want PONG", got)
	}
}
