package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/operators"
	"github.com/breakwater-llm/breakwater/internal/postgres"
)

type tokensCmd struct {
	Create tokensCreateCmd `cmd:"" help:"Mint an operator token; its text is printed once and kept nowhere."`
	List   tokensListCmd   `cmd:"" help:"List every token, without its secret."`
	Revoke tokensRevokeCmd `cmd:"" help:"End a token; gateways learn it within seconds."`
}

// withTokens runs work on the tokens in the database of a configuration.
func withTokens(ctx context.Context, flag configFlag, std streams, work func(*operators.Tokens) error) error {
	cfg, err := flag.load()
	if err != nil {
		return err
	}
	return withPool(ctx, cfg, std, func(pool *postgres.Pool) error {
		return work(operators.NewTokens(operators.NewRepository(pool)))
	})
}

type tokensCreateCmd struct {
	configFlag
	Name string         `arg:"" help:"Whose token it is; the history of circuits shows it."`
	Role string         `required:"" enum:"operator,viewer" placeholder:"operator|viewer" help:"An operator changes what runs, a viewer only looks."`
	TTL  *time.Duration `name:"ttl" placeholder:"720h" help:"How long it is good for; without it, until it is revoked."`
}

// Run prints the token's text alone on stdout, so that a script can take it, and
// what a person should know about it on stderr.
func (c tokensCreateCmd) Run(ctx context.Context, std streams) error {
	ttl, err := lifetime(c.TTL)
	if err != nil {
		return err
	}
	return withTokens(ctx, c.configFlag, std, func(tokens *operators.Tokens) error {
		token, text, err := tokens.Create(ctx, c.Name, operators.Role(c.Role), ttl)
		switch {
		case errors.Is(err, operators.ErrInvalidName):
			return usageError{err}
		case errors.Is(err, operators.ErrNameTaken):
			return fmt.Errorf("%w: revoke that token first, or choose another name", err)
		case err != nil:
			return err
		}
		fmt.Fprintf(std.Err, "token %s of %s, role %s, expires %s; it is shown only this once\n", token.Prefix, token.Name, token.Role, moment(token.ExpiresAt))
		_, err = fmt.Fprintln(std.Out, text)
		return err
	})
}

type tokensListCmd struct{ configFlag }

// Run prints a line per token, oldest first.
func (c tokensListCmd) Run(ctx context.Context, std streams) error {
	return withTokens(ctx, c.configFlag, std, func(tokens *operators.Tokens) error {
		all, err := tokens.List(ctx)
		if err != nil {
			return err
		}
		return printTokens(std.Out, all, time.Now())
	})
}

func printTokens(w io.Writer, all []operators.Token, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no tokens; breakwater tokens create mints one")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPREFIX\tNAME\tROLE\t"+lifeColumns)
	for _, t := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", t.ID, t.Prefix, t.Name, t.Role, lifeOf(t.Life, now))
	}
	return table.Flush()
}

type tokensRevokeCmd struct {
	configFlag
	ID string `arg:"" help:"The token's id or prefix, as tokens list shows them."`
}

// Run says which token was ended, or that it was already.
func (c tokensRevokeCmd) Run(ctx context.Context, std streams) error {
	return withTokens(ctx, c.configFlag, std, func(tokens *operators.Tokens) error {
		token, already, err := tokens.Revoke(ctx, c.ID)
		switch {
		case errors.Is(err, operators.ErrTokenNotFound):
			return unnamed("token", c.ID, err, liveTokensNamed(ctx, tokens, c.ID))
		case err != nil:
			return err
		case already:
			_, err = fmt.Fprintf(std.Out, "token %s of %s was revoked already at %s\n", token.Prefix, token.Name, moment(token.RevokedAt))
		default:
			_, err = fmt.Fprintf(std.Out, "revoked token %s of %s\n", token.Prefix, token.Name)
		}
		return err
	})
}

// liveTokensNamed lists the prefixes of the live tokens of a name; none where
// they cannot be read.
func liveTokensNamed(ctx context.Context, tokens *operators.Tokens, name string) (prefixes []string) {
	list, _ := tokens.List(ctx) // it only helps to say more
	for _, t := range list {
		if t.Name == name && t.State(time.Now()) == credential.StateLive {
			prefixes = append(prefixes, t.Prefix)
		}
	}
	return prefixes
}
