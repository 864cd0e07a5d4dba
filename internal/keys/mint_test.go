package keys_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/keys"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

var (
	here  = netip.MustParseAddr("192.0.2.1")
	usual = keys.Settings{CacheTTL: time.Minute, OutageTTL: 24 * time.Hour}
)

func keysIn(t *testing.T) (*keys.Keys, *pgxpool.Pool) {
	t.Helper()
	pool := postgrestest.New(t)
	return keysOn(t, pool), pool
}

// keysOn is one gateway's keys in a database.
func keysOn(t *testing.T, pool *pgxpool.Pool) *keys.Keys {
	t.Helper()
	k := keys.New(usual, keys.NewRepository(pool), slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := k.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return k
}

func create(t *testing.T, k *keys.Keys, wanted keys.Wanted) (keys.Key, string) {
	t.Helper()
	key, text, err := k.Create(t.Context(), wanted)
	if err != nil {
		t.Fatalf("create %s: %v", wanted.Name, err)
	}
	return key, text
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestAKeySaysWhoCallsAndWhatTheyMayUse(t *testing.T) {
	t.Parallel()
	k, pool := keysIn(t)
	limits := llm.Limits{RequestsPerDay: new(int64(0)), CostPerMonth: new(decimal.RequireFromString("12.5"))}
	key, text := create(t, k, keys.Wanted{Name: "shop", Owner: "Team Ä", Configurations: []string{"fast", "alpha/m1", "fast"}, Limits: limits, TTL: time.Hour})
	if !regexp.MustCompile(`^bw_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}$`).MatchString(text) || !strings.HasPrefix(text, key.Prefix+"_") || keys.Public(text) != key.Prefix {
		t.Errorf("the text of key %s has another form", key.Prefix)
	}
	for name, replica := range map[string]*keys.Keys{"where it was minted": k, "elsewhere": keysOn(t, pool)} {
		who, err := replica.Verify(t.Context(), text, here)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(llm.Caller{KeyID: key.ID.String(), Name: "shop", Limits: limits}, who.AsCaller()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for model, want := range map[string]bool{"fast": true, "alpha/m1": true, "slow": false, "alpha/m2": false, "": false} {
			if got := who.May(model); got != want {
				t.Errorf("%s: may name %q: %t, want %t", name, model, got, want)
			}
		}
	}
}

// No configuration named is everything, an empty list is nothing.
func TestEverythingIsNotNothing(t *testing.T) {
	t.Parallel()
	k, _ := keysIn(t)
	for name, tc := range map[string]struct {
		configurations []string
		want           bool
	}{
		"everything": {nil, true},
		"nothing":    {[]string{}, false},
	} {
		key, text := create(t, k, keys.Wanted{Name: name, Configurations: tc.configurations})
		who, err := k.Verify(t.Context(), text, here)
		if err != nil || who.May("chat") != tc.want || (key.Configurations == nil) != tc.want {
			t.Errorf("%s: may name chat %t, %v, kept as %#v; want %t", name, who.May("chat"), err, key.Configurations, tc.want)
		}
	}
}

// Whoever reads the database can call nothing with what is there.
func TestASecretIsNotKept(t *testing.T) {
	t.Parallel()
	k, pool := keysIn(t)
	_, text := create(t, k, keys.Wanted{Name: "shop"})
	var row string
	if err := pool.QueryRow(t.Context(), "SELECT api_keys::text || encode(secret_hash, 'escape') FROM api_keys").Scan(&row); err != nil {
		t.Fatal(err)
	}
	if secret := text[strings.LastIndexByte(text, '_')+1:]; strings.Contains(row, secret) {
		t.Error("the row holds the secret")
	}
}

func TestARevokedKeyStaysRevoked(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]func(keys.Key, string) string{
		"by its id":            func(key keys.Key, _ string) string { return key.ID.String() },
		"by its prefix":        func(key keys.Key, _ string) string { return key.Prefix },
		"by the bare prefix":   func(key keys.Key, _ string) string { return strings.TrimPrefix(key.Prefix, "bw_") },
		"by the whole of it":   func(_ keys.Key, text string) string { return text },
		"by its id in capital": func(key keys.Key, _ string) string { return strings.ToUpper(key.ID.String()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, pool := keysIn(t)
			key, text := create(t, k, keys.Wanted{Name: "shop"})
			if _, err := k.Verify(t.Context(), text, here); err != nil {
				t.Fatal(err)
			}
			revoked, already, err := k.Revoke(t.Context(), by(key, text))
			if err != nil || already || revoked.ID != key.ID || revoked.RevokedAt == nil || revoked.State(time.Now()) != credential.StateRevoked {
				t.Fatalf("revoke: %+v, already %t, %v", revoked, already, err)
			}
			again, already, err := k.Revoke(t.Context(), by(key, text))
			if err != nil || !already || !again.RevokedAt.Equal(*revoked.RevokedAt) {
				t.Errorf("revoke again: %+v, already %t, %v; want since %s", again, already, err, revoked.RevokedAt)
			}
			for where, replica := range map[string]*keys.Keys{"where it was known": k, "elsewhere": keysOn(t, pool)} {
				if _, err := replica.Verify(t.Context(), text, here); !errors.Is(err, keys.ErrInvalid) {
					t.Errorf("verify %s: %v, want ErrInvalid", where, err)
				}
			}
		})
	}
	k, _ := keysIn(t)
	for _, unknown := range []string{"", "bw_", "nobody", "a\x00b", "018f0000-0000-7000-8000-000000000000"} {
		if _, _, err := k.Revoke(t.Context(), unknown); !errors.Is(err, keys.ErrNotFound) {
			t.Errorf("revoke %q: %v, want ErrNotFound", unknown, err)
		}
	}
}

// What a gateway learns of keys that others mint and end.
func TestChangesOfKeysAreRead(t *testing.T) {
	t.Parallel()
	k, pool := keysIn(t)
	old, _ := create(t, k, keys.Wanted{Name: "old"})
	exec(t, pool, "UPDATE api_keys SET created_at = now() - interval '1 hour' WHERE id = $1", old.ID)
	ended, _ := create(t, k, keys.Wanted{Name: "ended", TTL: time.Hour})
	exec(t, pool, "UPDATE api_keys SET created_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' WHERE id = $1", ended.ID)
	revoked, _ := create(t, k, keys.Wanted{Name: "revoked"})
	if _, _, err := k.Revoke(t.Context(), revoked.Prefix); err != nil {
		t.Fatal(err)
	}
	fresh, _ := create(t, k, keys.Wanted{Name: "fresh"})

	repository := keys.NewRepository(pool)
	minted, gone, err := repository.ListChanged(t.Context(), time.Minute)
	if err != nil || len(minted) != 1 || len(gone) != 1 || keys.PublicOf(minted[0]) != fresh.Prefix || "bw_"+gone[0] != revoked.Prefix {
		t.Errorf("of the last minute there are %v and %v, %v", minted, gone, err)
	}
	for atMost, want := range map[int32][]string{10: {fresh.Prefix, old.Prefix}, 1: {fresh.Prefix}} {
		issued, err := repository.ListIssued(t.Context(), atMost)
		var got []string
		for _, p := range issued {
			got = append(got, keys.PublicOf(p))
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("of %d at most (-want +got): %v\n%s", atMost, err, diff)
		}
	}
}

func TestOneLiveKeyHasAName(t *testing.T) {
	t.Parallel()
	k, pool := keysIn(t)
	first, _ := create(t, k, keys.Wanted{Name: "ci"})
	if _, _, err := k.Create(t.Context(), keys.Wanted{Name: "ci"}); !errors.Is(err, keys.ErrNameTaken) {
		t.Errorf("the name of a live key: %v, want ErrNameTaken", err)
	}
	if _, _, err := k.Revoke(t.Context(), first.Prefix); err != nil {
		t.Fatal(err)
	}
	second, text := create(t, k, keys.Wanted{Name: "ci", TTL: time.Hour})
	exec(t, pool, "UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = $1", second.ID)
	if _, err := k.Verify(t.Context(), text, here); !errors.Is(err, keys.ErrInvalid) {
		t.Errorf("an expired key: %v, want ErrInvalid", err)
	}
	third, _ := create(t, k, keys.Wanted{Name: "ci", TTL: time.Hour})

	all, err := k.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, key := range all {
		got = append(got, key.ID.String()+" "+key.State(time.Now()))
	}
	want := []string{first.ID.String() + " revoked", second.ID.String() + " expired", third.ID.String() + " live"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(third, all[2]); diff != "" {
		t.Errorf("the last one (-created +listed):\n%s", diff)
	}
}

func TestImpossibleKeysAreNotMinted(t *testing.T) {
	t.Parallel()
	k, _ := keysIn(t)
	for name, wanted := range map[string]keys.Wanted{
		"no name":             {},
		"a name with a blank": {Name: "a b"},
		"a long name":         {Name: strings.Repeat("a", 65)},
		"an owner of lines":   {Name: "a", Owner: "b\nc"},
		"a long owner":        {Name: "a", Owner: strings.Repeat("ä", 201)},
		"no time":             {Name: "a", TTL: time.Millisecond},
		"a time gone by":      {Name: "a", TTL: -time.Hour},
		"an empty model":      {Name: "a", Configurations: []string{""}},
		"a model of lines":    {Name: "a", Configurations: []string{"a\nb"}},
		"no UTF-8":            {Name: "a", Configurations: []string{"\xff"}},
		"a negative limit":    {Name: "a", Limits: llm.Limits{Concurrent: new(int64(-1))}},
		"a cost too fine":     {Name: "a", Limits: llm.Limits{CostPerDay: new(decimal.RequireFromString("0.0000000001"))}},
	} {
		if _, _, err := k.Create(t.Context(), wanted); !errors.Is(err, keys.ErrInvalidKey) {
			t.Errorf("%s: %v, want ErrInvalidKey", name, err)
		}
	}
	if all, err := k.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("after them there are %d keys, %v, want none", len(all), err)
	}
}
