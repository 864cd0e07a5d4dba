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
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // the days of budgets, also where the machine knows no zones

	"github.com/alecthomas/kong"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/private"
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
	Usage     usageCmd     `cmd:"" help:"Show what calls used, by day, key, configuration, provider or model."`
	Keys      keysCmd      `cmd:"" help:"Mint, list and revoke the API keys of apps."`
	Tokens    tokensCmd    `cmd:"" help:"Mint, list and revoke operator tokens."`
	Prices    pricesCmd    `cmd:"" help:"Tell what models cost, and take over prices that others publish."`
	Config    configCmd    `cmd:"" help:"Check, show or describe the configuration."`
	Circuits  circuitsCmd  `cmd:"" help:"Look at the circuits of a running gateway, and steer them."`
	Cache     cacheCmd     `cmd:"" help:"Forget the answers that a running gateway keeps."`
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
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(duration)),
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
	return report(std.Err, remedied(parsed.Run(), fileOf(parsed)))
}

// fileOf is --config as it has to be repeated to a command about the same file;
// empty where that is what every command takes by itself.
func fileOf(parsed *kong.Context) string {
	for _, flag := range parsed.Flags() {
		if file := fmt.Sprint(parsed.FlagValue(flag)); flag.Name == "config" && file != flag.Default {
			return " --config " + file
		}
	}
	return ""
}

// remedied says which command mends a database that has no schema, or is none. It
// is a line of its own.
func remedied(err error, file string) error {
	var old *postgres.OldSchemaError
	switch {
	case errors.As(err, &old):
		return fmt.Errorf("%w\nrun breakwater migrate up%s", err, file)
	case errors.Is(err, private.ErrNoDatabase):
		return fmt.Errorf("%w: check database.data_dir, whose paths begin where the command runs, or make one with breakwater migrate up%s", err, file)
	default:
		return err
	}
}

// misused says what is wrong with the arguments and which help to read.
func misused(err error) error {
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context.Selected() == nil {
		return usageError{fmt.Errorf("%w; see breakwater --help", err)}
	}
	command := parse.Context.Selected()
	return usageError{fmt.Errorf("%s; see %s --help", complaint(err, command), command.FullPath())}
}

// belowZero is how the parser speaks of a negative number, which it takes for a
// flag; what it advises then is refused as well.
var belowZero = regexp.MustCompile(`^(--[a-z-]+): expected (?:int|duration) value but got "(-[0-9.][^"]*)" .*`)

// complaint is the parser's own, unless that would mislead.
func complaint(err error, command *kong.Node) string {
	text := err.Error()
	if strings.HasPrefix(text, "unknown flag --config") && !takes(command, "config") {
		return "unknown flag --config: " + whyNoFile(command)
	}
	return belowZero.ReplaceAllString(text, "$1: $2 is less than 0; give more")
}

// whyNoFile says why --config stands wrongly behind a command.
func whyNoFile(command *kong.Node) string {
	switch {
	case slices.ContainsFunc(command.Children, func(below *kong.Node) bool { return takes(below, "config") }):
		return "write it behind the whole command"
	case takes(command, "url") || slices.ContainsFunc(command.Children, func(below *kong.Node) bool { return takes(below, "url") }):
		return "no file is read, a running gateway is asked, whose server.admin_listen --url names"
	default:
		return "this command reads no file"
	}
}

func takes(command *kong.Node, flag string) bool {
	return slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == flag })
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

// oneLine folds an error that some library spread over lines; what such a list
// says again is left out.
func oneLine(err error) string {
	head, rest, listed := strings.Cut(err.Error(), ":\n")
	if !listed {
		return folded(head)
	}
	return folded(head) + ": " + folded(rest)
}

func folded(text string) string {
	var parts []string
	for part := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '\t' }) {
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

// duration reads a flag such as 168h.
func duration(from *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := from.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration: give hours, such as 168h for seven days, or 90m", text)
	}
	target.Set(reflect.ValueOf(d))
	return nil
}
