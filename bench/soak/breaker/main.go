// Command breaker soaks the circuit breaker alone, in this process (or, shared, in
// several on a real server that is hurt) and on the clock as it is: callers that succeed, fail, hang, panic, leave or forget their
// permit, on a thousand circuits at once, while settings change and a person
// gives orders. What the breaker says is checked against what its callers saw.
// It prints a Markdown summary and fails when a promise was broken.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
)

func main() {
	replicatest.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed := kong.Parse(&soakCmd{},
		kong.Name("soak-breaker"),
		kong.Description("Loads the circuit breaker in every way and holds it to its promises."),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	parsed.FatalIfErrorf(parsed.Run())
}
