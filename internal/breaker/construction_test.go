package breaker

import (
	"fmt"
	"testing"
)

// C101: a circuit over a window of time is made of three pieces: itself, its
// window and the buckets of that. Reading the settings of its key comes on top
// and belongs to whoever declares them.
func TestACircuitIsCheapToMake_C101(t *testing.T) {
	s := testSettings()
	r := New(Config{Settings: func(string) Settings { return s }})
	p := r.policy.Load()
	p.of("k")

	var made *circuit
	reading := testing.AllocsPerRun(1000, func() { p.of("k") })
	making := testing.AllocsPerRun(1000, func() { made = newCircuit(r, "k", p, 0) })
	if got := making - reading; got > 3 {
		t.Errorf("%v allocations beside the %v that read its settings, want at most 3", got, reading)
	}
	if made.snapshot().State != Closed {
		t.Errorf("what was made is %v", made.snapshot().State)
	}
}

func BenchmarkMakingACircuit(b *testing.B) {
	for name, window := range map[string]Window{
		"time":  testSettings().Window,
		"calls": {Calls: 100},
	} {
		b.Run(fmt.Sprint("window=", name), func(b *testing.B) {
			s := testSettings()
			s.Window = window
			r := New(Config{Settings: func(string) Settings { return s }})
			p := r.policy.Load()
			b.ReportAllocs()
			for b.Loop() {
				newCircuit(r, "k", p, 0)
			}
		})
	}
}
