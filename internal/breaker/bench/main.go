// Command bench measures the circuit breaker beside its peers, sony/gobreaker
// and failsafe-go, in one run on one machine. It is a module of its own, so that
// the product depends on neither. It knows the breakers by what a caller sees of
// them and nothing of what is inside.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var plan plan
	flag.IntVar(&plan.rounds, "rounds", 7, "`times` that everything is measured; the median counts")
	flag.DurationVar(&plan.slice, "slice", 100*time.Millisecond, "how long each contestant runs in a round")
	keys := flag.Int("memory-keys", 10_000, "`circuits` whose memory is measured")
	flag.Parse()
	if err := plan.check(*keys); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}

	fmt.Print(heading(plan))
	// Memory first, while the heap is empty.
	held := weigh(*keys)
	fmt.Print(costs(measure(plan, contestants())), memory(*keys, held))
}

func (p plan) check(memoryKeys int) error {
	if p.rounds < 1 || p.slice < time.Millisecond || memoryKeys < 1 {
		return fmt.Errorf("-rounds and -memory-keys must be at least 1, -slice at least 1ms")
	}
	return nil
}
