package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

type circuitsCmd struct {
	List    circuitsListCmd    `cmd:"" help:"List the circuits of a running gateway: what state each is in, why and since when."`
	Open    circuitsOpenCmd    `cmd:"" help:"Force a circuit open: every call to its target is refused."`
	Close   circuitsCloseCmd   `cmd:"" help:"Close a circuit, and end what an operator has set: calls go through, and the breaker decides again."`
	Reset   circuitsResetCmd   `cmd:"" help:"Close a circuit and forget what it has counted."`
	Disable circuitsDisableCmd `cmd:"" help:"Switch a circuit off: every call goes through, and nothing is counted."`
	Shadow  circuitsShadowCmd  `cmd:"" help:"Let a circuit only watch: every call goes through, and it tells when it would have opened."`
}

// gatewayFlags say which running gateway a command is for. The token is not
// among them: what stands on a command line is seen by every other process.
type gatewayFlags struct {
	URL    string `name:"url" env:"BREAKWATER_URL" default:"http://127.0.0.1:8081" placeholder:"URL" help:"Where the gateway's admin_listen is (${default}). An operator token is read from BREAKWATER_TOKEN."`
	Format string `enum:"table,json" default:"table" help:"How to print: table or json."`
}

func (f gatewayFlags) client() (*gatewayClient, error) {
	return newGatewayClient(f.URL, os.Getenv("BREAKWATER_TOKEN"))
}

type circuitsListCmd struct {
	gatewayFlags
	Key   string  `arg:"" optional:"" help:"Only this circuit, provider/model/region."`
	State *string `enum:"closed,open,half_open,forced_open,disabled,shadow" placeholder:"STATE" help:"Only circuits in this state: closed, open, half_open, forced_open, disabled or shadow."`
}

// Run prints the circuits that the flags leave.
func (c circuitsListCmd) Run(ctx context.Context, std streams) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if c.Key != "" {
		if err := wellFormed(c.Key); err != nil {
			return err
		}
	}
	all, err := client.circuits(ctx)
	if err != nil {
		return err
	}
	if c.Key != "" && !slices.ContainsFunc(all, func(one circuit) bool { return one.Key == c.Key }) {
		return noSuchCircuit(c.Key, all)
	}
	shown := slices.DeleteFunc(all, func(one circuit) bool {
		return c.State != nil && one.State != *c.State || c.Key != "" && one.Key != c.Key
	})
	if c.Format == "json" {
		return printCircuitsJSON(std.Out, shown)
	}
	return printCircuits(std.Out, shown)
}

// steering is what every command for one circuit takes.
type steering struct {
	gatewayFlags
	Key    string `arg:"" help:"The circuit, provider/model/region."`
	Reason string `placeholder:"TEXT" help:"Why, for whoever finds the circuit so."`
}

// lasting is steering whose state stays until it is ended.
type lasting struct {
	steering
	TTL *time.Duration `name:"ttl" placeholder:"10m" help:"How long it lasts, at most 720h; without it, until another command."`
}

type circuitsOpenCmd struct{ lasting }

// Run forces a circuit open.
func (c circuitsOpenCmd) Run(ctx context.Context, std streams) error { return c.run(ctx, std, "open") }

type circuitsCloseCmd struct{ steering }

// Run closes a circuit.
func (c circuitsCloseCmd) Run(ctx context.Context, std streams) error {
	return c.run(ctx, std, "close", 0)
}

type circuitsResetCmd struct{ steering }

// Run closes a circuit that shall remember nothing.
func (c circuitsResetCmd) Run(ctx context.Context, std streams) error {
	return c.run(ctx, std, "reset", 0)
}

type circuitsDisableCmd struct{ lasting }

// Run switches a circuit off.
func (c circuitsDisableCmd) Run(ctx context.Context, std streams) error {
	return c.run(ctx, std, "disable")
}

type circuitsShadowCmd struct{ lasting }

// Run lets a circuit only watch.
func (c circuitsShadowCmd) Run(ctx context.Context, std streams) error {
	return c.run(ctx, std, "shadow")
}

// longestTTL is how long a state may be asked for.
const longestTTL = 30 * 24 * time.Hour

func (c lasting) run(ctx context.Context, std streams, action string) error {
	if c.TTL == nil {
		return c.steering.run(ctx, std, action, 0)
	}
	// Nothing under a millisecond may round to 0, which is for ever.
	if *c.TTL < time.Millisecond || *c.TTL > longestTTL {
		return usageError{fmt.Errorf("--ttl %s: give a duration such as 10m, at most 720h, or leave it out for a state that stays", *c.TTL)}
	}
	return c.steering.run(ctx, std, action, *c.TTL)
}

// run commands the circuit and prints what it has become.
func (c steering) run(ctx context.Context, std streams, action string, ttl time.Duration) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := wellFormed(c.Key); err != nil {
		return err
	}
	now, err := client.command(ctx, c.Key, action, c.Reason, ttl)
	if err != nil {
		return err
	}
	if now.Saved != nil && !*now.Saved {
		fmt.Fprintln(std.Err, "breakwater: the command holds, but it is not saved yet, since the gateway's database is away; it is saved when the database returns, and lost if the gateway stops before")
	}
	if c.Format == "json" {
		return printCircuitJSON(std.Out, now)
	}
	_, err = fmt.Fprintln(std.Out, now.sentence())
	return err
}

// wellFormed tells a key that can be none before anybody is asked.
func wellFormed(key string) error {
	if _, ok := llm.ParseTarget(key); !ok {
		return usageError{fmt.Errorf("%q is not the key of a circuit: write provider/model/region, as breakwater circuits list prints it", key)}
	}
	return nil
}

// nearestShown is how many keys are named to whoever wrote one that is none.
const nearestShown = 3

// noSuchCircuit names the keys that were probably meant.
func noSuchCircuit(key string, all []circuit) error {
	if len(all) == 0 {
		return fmt.Errorf("there is no circuit %q, and no other: the gateway's configuration declares no target", key)
	}
	slices.SortStableFunc(all, func(a, b circuit) int { return cmp.Compare(likeness(b.Key, key), likeness(a.Key, key)) })
	var nearest []string
	for _, one := range all[:min(len(all), nearestShown)] {
		nearest = append(nearest, plain(one.Key))
	}
	return fmt.Errorf("there is no circuit %q; nearest: %s; breakwater circuits list prints all", key, strings.Join(nearest, ", "))
}

// likeness says how much two keys have in common: whole parts first, then how
// they begin.
func likeness(a, b string) int {
	one, _ := llm.ParseTarget(a)
	other, _ := llm.ParseTarget(b)
	const part = 1000
	like := 0
	for _, same := range []bool{one.Provider == other.Provider, one.Model == other.Model, one.Region == other.Region} {
		if same {
			like += part
		}
	}
	for i := 0; i < min(len(a), len(b)) && a[i] == b[i]; i++ {
		like++
	}
	return like
}

// circuit is one circuit as the gateway describes it.
type circuit struct {
	Key          string    `json:"key"`
	State        string    `json:"state"`
	Reason       string    `json:"reason"`
	Class        string    `json:"class"`
	Since        time.Time `json:"since"`
	RetryAfterMS int64     `json:"retry_after_ms"`
	Eligible     bool      `json:"eligible"`
	Calls        uint64    `json:"calls"`
	FailureRate  *float64  `json:"failure_rate"`
	Note         string    `json:"note"`  // of the operator who set the state
	Actor        string    `json:"actor"` // that operator
	Until        time.Time `json:"until"` // when what was set ends; zero for never
	Saved        *bool     `json:"saved"` // of a command's answer

	whole json.RawMessage // as it came
}
