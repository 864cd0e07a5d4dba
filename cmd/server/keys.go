package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/keys"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Mint an API key for an app; its text is printed once and kept nowhere."`
	List   keysListCmd   `cmd:"" help:"List every key, without its secret."`
	Revoke keysRevokeCmd `cmd:"" help:"End a key; gateways learn it within a second."`
}

// withKeys runs work on the keys in the database of a configuration.
func withKeys(ctx context.Context, flag configFlag, std streams, work func(*config.Config, *keys.Keys) error) error {
	cfg, err := flag.load()
	if err != nil {
		return err
	}
	return withPool(ctx, cfg, std, func(pool *postgres.Pool) error {
		settings := keys.Settings{CacheTTL: cfg.Auth.CacheTTL, OutageTTL: cfg.Auth.OutageTTL}
		return work(cfg, keys.New(settings, keys.NewRepository(pool), slog.New(slog.DiscardHandler)))
	})
}

type keysCreateCmd struct {
	configFlag
	Name           string         `arg:"" help:"What the key is called in lists and usage."`
	Owner          string         `placeholder:"TEXT" help:"Whose key it is."`
	Configurations []string       `name:"configuration" sep:"none" placeholder:"NAME" help:"A configuration, or provider/model, that the key may name; may be repeated. Without it, everything."`
	Limits         []string       `name:"limit" sep:"none" placeholder:"NAME=VALUE" help:"A limit, such as requests_per_minute=60, tokens_per_day=1000000 or cost_per_month=25.50 (USD); may be repeated. 0 allows nothing."`
	TTL            *time.Duration `name:"ttl" placeholder:"720h" help:"How long it is good for; without it, until it is revoked."`
}

// Run prints the key's text alone on stdout, so that a script can take it, and
// what a person should know about it on stderr.
func (c keysCreateCmd) Run(ctx context.Context, std streams) error {
	wanted, err := c.wanted()
	if err != nil {
		return err
	}
	return withKeys(ctx, c.configFlag, std, func(cfg *config.Config, all *keys.Keys) error {
		key, text, err := all.Create(ctx, wanted)
		switch {
		case errors.Is(err, keys.ErrInvalidKey):
			return usageError{err}
		case errors.Is(err, keys.ErrNameTaken):
			return fmt.Errorf("%w: revoke that key first, or choose another name", err)
		case err != nil:
			return err
		}
		for _, model := range unknownModels(cfg, key.Configurations) {
			fmt.Fprintf(std.Err, "warning: %s declares no configuration or target %q; the key may name it once it is there\n", c.Path, model)
		}
		if cfg.Auth.Mode == config.AuthOpen {
			fmt.Fprintf(std.Err, "warning: auth.mode is open in %s, so nobody is asked for a key\n", c.Path)
		}
		fmt.Fprintf(std.Err, "key %s of %s for %s, %s, expires %s; it is shown only this once\n",
			key.Prefix, key.Name, modelsOf(key), cmp.Or(limitsOf(key.Limits), "without limits"), moment(key.ExpiresAt))
		_, err = fmt.Fprintln(std.Out, text)
		return err
	})
}

func (c keysCreateCmd) wanted() (keys.Wanted, error) {
	ttl, err := lifetime(c.TTL)
	if err != nil {
		return keys.Wanted{}, err
	}
	wanted := keys.Wanted{Name: c.Name, Owner: c.Owner, Configurations: c.Configurations, TTL: ttl}
	if len(c.Configurations) == 0 {
		wanted.Configurations = nil
	}
	for _, limit := range c.Limits {
		name, value, ok := strings.Cut(limit, "=")
		if !ok {
			return keys.Wanted{}, usageError{fmt.Errorf("--limit %s: write NAME=VALUE, such as requests_per_minute=60", limit)}
		}
		if _, twice := wanted.Limits.Of(llm.LimitName(name)); twice {
			return keys.Wanted{}, usageError{fmt.Errorf("--limit %s is given twice", name)}
		}
		if err := keys.SetLimit(&wanted.Limits, name, value); err != nil {
			return keys.Wanted{}, usageError{fmt.Errorf("--limit %s: %w", limit, err)}
		}
	}
	return wanted, nil
}

// unknownModels lists what no client can name under a configuration.
func unknownModels(cfg *config.Config, models []string) (unknown []string) {
	direct := map[string]bool{}
	for _, target := range cfg.AllTargets() {
		direct[target.Provider+"/"+target.Model] = cfg.DirectTargets
	}
	for _, model := range models {
		if _, ok := cfg.Configurations[model]; !ok && !direct[model] {
			unknown = append(unknown, model)
		}
	}
	return unknown
}

type keysListCmd struct{ configFlag }

// Run prints a line per key, oldest first.
func (c keysListCmd) Run(ctx context.Context, std streams) error {
	return withKeys(ctx, c.configFlag, std, func(_ *config.Config, all *keys.Keys) error {
		list, err := all.List(ctx)
		if err != nil {
			return err
		}
		return printKeys(std.Out, list, time.Now())
	})
}

func printKeys(w io.Writer, all []keys.Key, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no keys; breakwater keys create mints one")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPREFIX\tNAME\tOWNER\t"+lifeColumns+"\tCONFIGURATIONS\tLIMITS")
	for _, k := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			k.ID, k.Prefix, k.Name, cmp.Or(k.Owner, "-"), lifeOf(k.Life, now), modelsOf(k), cmp.Or(limitsOf(k.Limits), "-"))
	}
	return table.Flush()
}

// modelsOf is what a key may name, for people.
func modelsOf(k keys.Key) string {
	switch {
	case k.Configurations == nil:
		return "everything"
	case len(k.Configurations) == 0:
		return "nothing"
	default:
		return strings.Join(k.Configurations, ",")
	}
}

// limitsOf lists the limits that are set as --limit takes them.
func limitsOf(l llm.Limits) string {
	var set []string
	for _, name := range llm.LimitNames() {
		if allowed, limited := l.Of(name); limited {
			set = append(set, string(name)+"="+allowed.String())
		}
	}
	return strings.Join(set, ",")
}

type keysRevokeCmd struct {
	configFlag
	ID string `arg:"" help:"The key's id or prefix, as keys list shows them."`
}

// Run says which key was ended, or that it was already.
func (c keysRevokeCmd) Run(ctx context.Context, std streams) error {
	return withKeys(ctx, c.configFlag, std, func(_ *config.Config, all *keys.Keys) error {
		key, already, err := all.Revoke(ctx, c.ID)
		switch {
		case errors.Is(err, keys.ErrNotFound):
			return unnamed("key", c.ID, err, liveKeysNamed(ctx, all, c.ID))
		case err != nil:
			return err
		case already:
			_, err = fmt.Fprintf(std.Out, "key %s of %s was revoked already at %s\n", key.Prefix, key.Name, moment(key.RevokedAt))
		default:
			_, err = fmt.Fprintf(std.Out, "revoked key %s of %s\n", key.Prefix, key.Name)
		}
		return err
	})
}

// liveKeysNamed lists the prefixes of the live keys of a name; none where they
// cannot be read.
func liveKeysNamed(ctx context.Context, all *keys.Keys, name string) (prefixes []string) {
	list, _ := all.List(ctx) // it only helps to say more
	for _, k := range list {
		if k.Name == name && k.State(time.Now()) == credential.StateLive {
			prefixes = append(prefixes, k.Prefix)
		}
	}
	return prefixes
}
