package operators_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/operators"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

func tokensIn(t *testing.T) (*operators.Tokens, *pgxpool.Pool) {
	t.Helper()
	pool := postgrestest.New(t)
	return operators.NewTokens(operators.NewRepository(pool)), pool
}

func create(t *testing.T, tokens *operators.Tokens, name string, role operators.Role, ttl time.Duration) (operators.Token, string) {
	t.Helper()
	token, text, err := tokens.Create(t.Context(), name, role, ttl)
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return token, text
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestATokenSaysWhoCalls(t *testing.T) {
	t.Parallel()
	tokens, _ := tokensIn(t)
	for name, role := range map[string]operators.Role{"ada": operators.RoleOperator, "vic": operators.RoleViewer} {
		token, text := create(t, tokens, name, role, time.Hour)
		if !regexp.MustCompile(`^bwo_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}$`).MatchString(text) || !strings.HasPrefix(text, token.Prefix+"_") {
			t.Errorf("the text of token %s has another form", token.Prefix)
		}
		who, err := tokens.Verify(t.Context(), text)
		if want := (operators.Operator{Name: name, Role: role}); err != nil || who != want {
			t.Errorf("verify: %+v, %v; want %+v", who, err, want)
		}
		if who.MayChange() != (role == operators.RoleOperator) {
			t.Errorf("a %s may change things: %t", role, who.MayChange())
		}
	}
}

// Whoever reads the database can call nothing with what is there.
func TestASecretIsNotKept(t *testing.T) {
	t.Parallel()
	tokens, pool := tokensIn(t)
	_, text := create(t, tokens, "ada", operators.RoleOperator, 0)
	var row string
	if err := pool.QueryRow(t.Context(), "SELECT operator_tokens::text || encode(secret_hash, 'escape') FROM operator_tokens").Scan(&row); err != nil {
		t.Fatal(err)
	}
	if secret := text[strings.LastIndexByte(text, '_')+1:]; strings.Contains(row, secret) {
		t.Errorf("the row holds the secret: %s", row)
	}
}

func TestWhatWasNeverMintedIsWorthNothing(t *testing.T) {
	t.Parallel()
	tokens, _ := tokensIn(t)
	_, ada := create(t, tokens, "ada", operators.RoleOperator, 0)
	_, bob := create(t, tokens, "bob", operators.RoleOperator, 0)
	for name, text := range map[string]string{
		"nothing":                  "",
		"another word":             "operator",
		"a prefix alone":           ada[:len("bwo_0123456789")],
		"the secret of another":    ada[:15] + bob[15:],
		"a last letter missing":    ada[:len(ada)-1],
		"a letter more":            ada + "x",
		"a blank at the end":       ada + " ",
		"another kind of token":    "bw_" + ada[4:],
		"an unknown prefix":        "bwo_zzzzzzzzzz" + ada[14:],
		"letters that are not one": ada[:len(ada)-2] + "ä",
	} {
		if who, err := tokens.Verify(t.Context(), text); !errors.Is(err, operators.ErrInvalidToken) {
			t.Errorf("%s: got %+v, %v; want ErrInvalidToken", name, who, err)
		}
	}
	if _, err := tokens.Verify(t.Context(), ada); err != nil {
		t.Errorf("after them the right one: %v", err)
	}
}

func TestARevokedTokenStaysRevoked(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]func(operators.Token, string) string{
		"by its id":            func(token operators.Token, _ string) string { return token.ID.String() },
		"by its prefix":        func(token operators.Token, _ string) string { return token.Prefix },
		"by the bare prefix":   func(token operators.Token, _ string) string { return strings.TrimPrefix(token.Prefix, "bwo_") },
		"by the whole of it":   func(_ operators.Token, text string) string { return text },
		"by its id in capital": func(token operators.Token, _ string) string { return strings.ToUpper(token.ID.String()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens, pool := tokensIn(t)
			token, text := create(t, tokens, "ada", operators.RoleOperator, 0)
			revoked, already, err := tokens.Revoke(t.Context(), by(token, text))
			if err != nil || already || revoked.ID != token.ID || revoked.RevokedAt == nil || revoked.State(time.Now()) != credential.StateRevoked {
				t.Fatalf("revoke: %+v, already %t, %v", revoked, already, err)
			}
			again, already, err := tokens.Revoke(t.Context(), by(token, text))
			if err != nil || !already || !again.RevokedAt.Equal(*revoked.RevokedAt) {
				t.Errorf("revoke again: %+v, already %t, %v; want since %s", again, already, err, revoked.RevokedAt)
			}
			fresh := operators.NewTokens(operators.NewRepository(pool))
			if _, err := fresh.Verify(t.Context(), text); !errors.Is(err, operators.ErrInvalidToken) {
				t.Errorf("verify: %v, want ErrInvalidToken", err)
			}
		})
	}
	tokens, _ := tokensIn(t)
	for _, unknown := range []string{"", "bwo_", "nobody", "a\x00b", "018f0000-0000-7000-8000-000000000000"} {
		if _, _, err := tokens.Revoke(t.Context(), unknown); !errors.Is(err, operators.ErrTokenNotFound) {
			t.Errorf("revoke %q: %v, want ErrTokenNotFound", unknown, err)
		}
	}
}

func TestOneLiveTokenHasAName(t *testing.T) {
	t.Parallel()
	tokens, pool := tokensIn(t)
	first, _ := create(t, tokens, "ci", operators.RoleOperator, 0)
	if _, _, err := tokens.Create(t.Context(), "ci", operators.RoleViewer, 0); !errors.Is(err, operators.ErrNameTaken) {
		t.Errorf("the name of a live token: %v, want ErrNameTaken", err)
	}
	if _, _, err := tokens.Revoke(t.Context(), first.Prefix); err != nil {
		t.Fatal(err)
	}
	second, text := create(t, tokens, "ci", operators.RoleOperator, time.Hour)
	exec(t, pool, "UPDATE operator_tokens SET expires_at = now() - interval '1 second' WHERE id = $1", second.ID)
	if _, err := tokens.Verify(t.Context(), text); !errors.Is(err, operators.ErrInvalidToken) {
		t.Errorf("an expired token: %v, want ErrInvalidToken", err)
	}
	third, _ := create(t, tokens, "ci", operators.RoleViewer, time.Hour)

	all, err := tokens.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, token := range all {
		got = append(got, token.ID.String()+" "+token.State(time.Now()))
	}
	want := []string{first.ID.String() + " revoked", second.ID.String() + " expired", third.ID.String() + " live"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(third, all[2], cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("the last one (-created +listed):\n%s", diff)
	}
}

// A name stands in logs and histories beside those that the gateway gives
// itself.
func TestNamesThatMayMislead(t *testing.T) {
	t.Parallel()
	tokens, _ := tokensIn(t)
	for _, name := range []string{"", " ", "a b", "-a", "a\nb", "ada\u202e", "Ädä", strings.Repeat("a", 65), "local", "Breaker", "LOCAL"} {
		if _, _, err := tokens.Create(t.Context(), name, operators.RoleViewer, 0); !errors.Is(err, operators.ErrInvalidName) {
			t.Errorf("%q: %v, want ErrInvalidName", name, err)
		}
	}
	for _, name := range []string{"a", "ada@example.org", "ci-7.b_c", strings.Repeat("a", 64), "locals"} {
		create(t, tokens, name, operators.RoleViewer, 0)
	}
	if _, _, err := tokens.Create(t.Context(), "root", "root", 0); err == nil {
		t.Error("a role that there is not is minted")
	}
}
