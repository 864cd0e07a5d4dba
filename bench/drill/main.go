// Command drill shows what a sick provider does to callers, and what the
// circuit breaker and a second target spare them. It starts the real gateway
// with simulated providers, makes calls at a constant rate, hurts the first
// provider as a scenario says, phase by phase, and prints a scorecard as
// Markdown. It fails when a bound of the scenario was broken.
//
// Every process and connection is its own, on loopback.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed := kong.Parse(&drillCmd{},
		kong.Name("drill"),
		kong.Description("Hurts a provider of a running gateway and prints what callers and circuits made of it."),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	parsed.FatalIfErrorf(parsed.Run())
}
