package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/postgres"
)

// withPool runs work on the database of a configuration, whose schema is current.
func withPool(ctx context.Context, cfg *config.Config, std streams, work func(*postgres.Pool) error) error {
	return withExisting(ctx, cfg, std, func(url string) error {
		if err := postgres.Verify(ctx, url); err != nil {
			return err
		}
		pool, err := postgres.Open(ctx, url, postgres.Options{MaxConns: 1})
		if err != nil {
			return err
		}
		defer pool.Close()
		return work(pool)
	})
}

// lifetime is 0 without an end. One that would be over at once is refused.
func lifetime(ttl *time.Duration) (time.Duration, error) {
	switch {
	case ttl == nil:
		return 0, nil
	case *ttl < time.Second:
		return 0, usageError{fmt.Errorf("--ttl %s is over at once: give a duration such as 720h, or leave it out", *ttl)}
	default:
		return *ttl, nil
	}
}

// unnamed says that nothing has the id or prefix that was given, and which live
// one has it for a name. Of a text that may hold a secret only the beginning is shown.
func unnamed(what, given string, err error, named []string) error {
	const shown, longest = 10, 36 // less than a prefix, as long as an id
	if len(given) > longest || len(given) > shown && strings.HasPrefix(given, "bw") {
		given = given[:shown] + "…"
	}
	advice := fmt.Sprintf("breakwater %ss list shows those there are", what)
	if len(named) == 1 {
		advice = fmt.Sprintf("the live %s of that name is %s", what, named[0])
	}
	return fmt.Errorf("%w: no %s has the id or prefix %q; %s", err, what, given, advice)
}

// lifeColumns heads what lifeOf says.
const lifeColumns = "STATE\tCREATED\tEXPIRES\tREVOKED"

// lifeOf is the life of a key or a token in the columns of a table.
func lifeOf(l credential.Life, now time.Time) string {
	return fmt.Sprintf("%s\t%s\t%s\t%s", l.State(now), moment(&l.CreatedAt), moment(l.ExpiresAt), moment(l.RevokedAt))
}

// moment is a time for people; never where there is none.
func moment(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}
