// Command shared measures what it costs to share circuits between replicas, and
// how late they learn what others have found: eight processes on one real
// server on this machine. It prints one table.
package main

import (
	"fmt"
	"os"

	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
)

func main() {
	replicatest.Main()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-shared:", err)
		os.Exit(1)
	}
}

// run is the whole order of a measurement.
func run() error {
	t := &table{}
	for _, measure := range []func(*table) error{costs, strict, probes, lateness} {
		if err := measure(t); err != nil {
			return err
		}
	}
	fmt.Print(t)
	return nil
}
