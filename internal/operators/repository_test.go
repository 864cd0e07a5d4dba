package operators_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/operators"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

func TestOverridesAreKeptUntilALaterWord(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	r := operators.NewRepository(pool)
	noon, until := time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC), time.Date(2100, 1, 2, 13, 0, 0, 0, time.UTC)
	at := func(state string, d time.Duration, until *time.Time) operators.Override {
		return operators.Override{Key: "alpha/m1/r1", State: state, Reason: "weil 🛠", Actor: "ada", SetAt: noon.Add(d), Until: until}
	}
	save := func(o operators.Override, want bool) {
		t.Helper()
		if kept, err := r.SaveOverride(t.Context(), o); err != nil || kept != want {
			t.Errorf("save %s: kept %t, %v; want %t", o.State, kept, err, want)
		}
	}
	kept := func(want ...operators.Override) {
		t.Helper()
		got, err := r.ListOverrides(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append([]operators.Override{}, want...), got); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	}
	remove := func(d time.Duration) {
		t.Helper()
		if err := r.DeleteOverride(t.Context(), "alpha/m1/r1", noon.Add(d)); err != nil {
			t.Error(err)
		}
	}
	kept()
	save(at("forced_open", 0, &until), true)
	kept(at("forced_open", 0, &until))
	save(at("shadow", -time.Microsecond, nil), false) // an older word
	kept(at("forced_open", 0, &until))
	save(at("forced_open", 0, &until), true) // once more, as when the answer was lost
	save(at("disabled", time.Microsecond, nil), true)
	kept(at("disabled", time.Microsecond, nil))
	remove(0)
	kept(at("disabled", time.Microsecond, nil))
	remove(time.Microsecond)
	kept()

	save(at("forced_open", 0, &noon), true) // its time was up long ago
	other := operators.Override{Key: "b/m/r", State: "shadow", Actor: "ada", SetAt: noon, Until: &until}
	save(other, true)
	if err := r.DeleteExpiredOverrides(t.Context()); err != nil {
		t.Error(err)
	}
	kept(other)
}

func TestAStoreThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := operators.NewRepository(pool)
	for name, call := range map[string]func(ctx context.Context) error{
		"time":           func(ctx context.Context) error { _, err := r.Time(ctx); return err },
		"list overrides": func(ctx context.Context) error { _, err := r.ListOverrides(ctx); return err },
		"save": func(ctx context.Context) error {
			_, err := r.SaveOverride(ctx, operators.Override{Key: "k", State: "shadow"})
			return err
		},
		"delete":         func(ctx context.Context) error { return r.DeleteOverride(ctx, "k", time.Now()) },
		"delete expired": func(ctx context.Context) error { return r.DeleteExpiredOverrides(ctx) },
		"insert token":   func(ctx context.Context) error { _, err := r.InsertToken(ctx, operators.NewToken{}); return err },
		"find token":     func(ctx context.Context) error { _, err := r.FindLiveToken(ctx, "p"); return err },
		"list tokens":    func(ctx context.Context) error { _, err := r.ListTokens(ctx); return err },
		"revoke token":   func(ctx context.Context) error { _, _, err := r.RevokeToken(ctx, "p"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := call(context.Background()); !errors.Is(err, postgres.ErrUnavailable) || !r.Unavailable(err) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		})
	}
}

// The same as with the fakes, with two gateways' worth of circuits on one real
// database, in real time.
func TestTwoNodesOnOneDatabase(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	nodes := make([]*breaker.Registry, 2)
	overrides := make([]*operators.Overrides, 2)
	for i := range nodes {
		nodes[i] = breaker.New(breaker.Config{Settings: func(string) breaker.Settings { return breaker.Settings{} }})
		overrides[i] = operators.NewOverrides(nodes[i], operators.NewRepository(pool), slog.New(slog.DiscardHandler))
		overrides[i].Start()
		defer func() {
			if err := overrides[i].Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
	}
	for _, step := range []struct {
		by     int
		action breaker.Action
		want   breaker.State
	}{
		{0, breaker.ActionOpen, breaker.ForcedOpen}, {1, breaker.ActionShadow, breaker.Shadow}, {0, breaker.ActionClose, breaker.Closed},
	} {
		decide(t, overrides[step.by], step.action)
		for i, circuits := range nodes {
			awaitState(t, circuits, step.want, i)
		}
	}
}

// decide says a word until it is saved, for which a busy machine may take longer
// than an operator is kept waiting.
func decide(t *testing.T, o *operators.Overrides, action breaker.Action) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		_, saved, err := o.Command(t.Context(), "k", breaker.Command{Action: action, Actor: "ada"})
		switch {
		case err != nil:
			t.Fatalf("%s: %v", action, err)
		case saved:
			return
		case time.Now().After(deadline):
			t.Fatalf("%s is never saved", action)
		}
	}
}

func awaitState(t *testing.T, circuits *breaker.Registry, want breaker.State, node int) {
	t.Helper()
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for {
		s, _ := circuits.Circuit("k")
		if s.State == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("node %d has %s, want %s", node, s.State, want)
		}
	}
}
