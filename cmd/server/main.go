// Command breakwater is the gateway and the tools around it: one file per
// subcommand, each of which parses its flags, calls one room and prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// Set by the linker; `make build` fills them in.
var (
	version = "dev"
	commit  = "unknown"
)

// Exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks an error that the caller can mend by calling differently.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

type cli struct {
	Show kong.VersionFlag `name:"version" help:"Print the version."`

	Serve     serveCmd     `cmd:"" help:"Run the gateway: API listener, admin listener, workers."`
	Migrate   migrateCmd   `cmd:"" help:"Apply, revert or list the database migrations."`
	Telemetry telemetryCmd `cmd:"" help:"Look after the telemetry tables."`
	Tokens    tokensCmd    `cmd:"" help:"Mint, list and revoke operator tokens."`
	Config    configCmd    `cmd:"" help:"Check, show or describe the configuration."`
	Circuits  circuitsCmd  `cmd:"" help:"Look at the circuits of a running gateway, and steer them."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

// streams are where a command reads and writes.
type streams struct {
	Out, Err io.Writer
}

func main() {
	os.Exit(run(os.Args[1:], streams{Out: os.Stdout, Err: os.Stderr}))
}

// run parses the arguments, runs one command and returns its exit code. The
// first signal ends the command's context, a second one the process.
func run(args []string, std streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	exit := -1
	parser, err := kong.New(&cli{},
		kong.Name("breakwater"),
		kong.Description("An LLM gateway: one binary between apps and providers.\n\n"+
			"A command exits with 0 when it is done, 1 when it failed, 2 when it was used wrongly."),
		kong.Writers(std.Out, std.Err),
		kong.Vars{"version": describeVersion()},
		kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
	)
	if err != nil {
		return report(std.Err, err)
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err != nil {
		return report(std.Err, misused(err))
	}
	return report(std.Err, parsed.Run())
}

// misused says what is wrong with the arguments and which help to read.
func misused(err error) error {
	help := "breakwater --help"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context.Selected() != nil {
		help = "breakwater " + parse.Context.Command() + " --help"
	}
	return usageError{fmt.Errorf("%w; see %s", err, help)}
}

// report prints an error as one line and returns the exit code for it.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	var faults config.Faults
	if errors.As(err, &faults) {
		fmt.Fprintln(w, err) // each is a line that editors can jump from
		return exitUsage
	}
	fmt.Fprintf(w, "breakwater: %s\n", oneLine(err))
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// oneLine folds an error that some library spread over lines.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(c rune) bool { return c == '\n' || c == '\t' }), "; ")
}
