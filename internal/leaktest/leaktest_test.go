package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

// goleak alone would not wait as long as the first of them takes.
func TestOnlyWhatStaysIsALeak(t *testing.T) {
	others := goleak.IgnoreCurrent()
	lingering := time.NewTimer(time.Second)
	go func() { <-lingering.C }()
	if !settled(time.Minute, others) {
		t.Error("a goroutine that ends after a second is taken for a leak")
	}

	leave := make(chan struct{})
	defer close(leave)
	go func() { <-leave }()
	if settled(time.Millisecond, others) {
		t.Error("a goroutine that stays is not seen")
	}
}
