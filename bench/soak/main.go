// Command soak puts the gateway through a day of production in ten minutes:
// the real program on a Postgres of its own, upstreams that fail in every way
// that is known of them, clients that leave or read slowly or talk nonsense,
// reloads, operators who look, and a database that goes away. Every answer is
// judged, every call is looked up in the database afterwards, and memory,
// goroutines and open files are held to where they were. It prints a Markdown
// summary and fails when a promise was broken.
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
	parsed := kong.Parse(&soakCmd{},
		kong.Name("soak"),
		kong.Description("Loads a gateway as production does and holds it to its promises."),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	parsed.FatalIfErrorf(parsed.Run())
}
