package cachetest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/google/go-cmp/cmp"
)

func values(t *testing.T, c cache.Cache) {
	for name, value := range map[string][]byte{
		"empty":            {},
		"nil":              nil,
		"text":             []byte("value"),
		"binary":           []byte("\x00\r\n\xff$5\r\n"),
		"a megabyte":       bytes.Repeat([]byte{0, 1, 2, 0xfe}, 1<<18),
		"key \x00\r\n\xff": []byte("odd key"),
		"":                 []byte("no key at all"),
	} {
		if err := c.Set(t.Context(), name, value, lifetime); err != nil {
			t.Fatalf("set %q: %v", name, err)
		}
		got, err := c.Get(t.Context(), name)
		if err != nil || !bytes.Equal(got, value) || got == nil {
			t.Errorf("get %q: got %d bytes (nil: %v), %v, want %d bytes", name, len(got), got == nil, err, len(value))
		}
	}
}

func ownership(t *testing.T, c cache.Cache) {
	value := []byte("abc")
	if err := c.Set(t.Context(), "k", value, lifetime); err != nil {
		t.Fatal(err)
	}
	value[0] = 'x'
	got, err := c.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	got[1] = 'x'
	wantValue(t, c, "k", "abc")
}

func absent(t *testing.T, c cache.Cache) {
	if err := c.Delete(t.Context(), "k"); err != nil {
		t.Errorf("delete an absent key: %v", err)
	}
	mustSet(t, c, "k", "v", lifetime)
	if err := c.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(t.Context(), "k"); !errors.Is(err, cache.ErrNotFound) {
		t.Errorf("get after delete: got %q, %v, want ErrNotFound", got, err)
	}
}

func add(t *testing.T, c cache.Cache) {
	var got [2]bool
	for i, value := range []string{"first", "second"} {
		var err error
		if got[i], err = c.Add(t.Context(), "k", []byte(value), lifetime); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([2]bool{true, false}, got); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	wantValue(t, c, "k", "first")
}

func compareAndSwap(t *testing.T, c cache.Cache) {
	swap := func(old, next string, want bool) {
		t.Helper()
		got, err := c.CompareAndSwap(t.Context(), "k", []byte(old), []byte(next), lifetime)
		if err != nil || got != want {
			t.Errorf("swap %q for %q: got %v, %v, want %v", old, next, got, err, want)
		}
	}
	swap("", "x", false)
	mustSet(t, c, "k", "", lifetime)
	swap("x", "y", false)
	swap("", "a\x00", true)
	swap("a", "y", false)
	swap("a\x00", "z", true)
	wantValue(t, c, "k", "z")
}

// expiry writes in each way with a short life, and waits for the end of it.
func expiry(t *testing.T, c cache.Cache) {
	const short = 30 * time.Millisecond
	if ok, err := c.Add(t.Context(), "added", nil, short); !ok || err != nil {
		t.Fatal(ok, err)
	}
	mustSet(t, c, "swapped", "v", lifetime)
	if ok, err := c.CompareAndSwap(t.Context(), "swapped", []byte("v"), nil, short); !ok || err != nil {
		t.Fatal(ok, err)
	}
	mustSet(t, c, "set", "long", lifetime)
	mustSet(t, c, "set", "short", short)
	mustRun(t, c, set, []string{"script"}, "v", "30")
	mustRun(t, c, hashSet, []string{"hash"}, "f", "v", "30")
	mustSet(t, c, "fraction", "v", time.Nanosecond)
	for _, key := range []string{"added", "swapped", "set", "script", "hash", "fraction"} {
		eventually(t, key+" expires", func() bool {
			_, err := c.Get(t.Context(), key)
			return errors.Is(err, cache.ErrNotFound)
		})
	}
	if ok, err := c.Add(t.Context(), "added", []byte("again"), lifetime); !ok || err != nil {
		t.Errorf("add over an expired key: got %v, %v", ok, err)
	}
	wantReply(t, mustRun(t, c, hashAll, []string{"hash"}))
}

func noTTL(t *testing.T, c cache.Cache) {
	for _, ttl := range []time.Duration{0, -time.Second} {
		if err := c.Set(t.Context(), "k", nil, ttl); err == nil {
			t.Errorf("set with a ttl of %v: no error", ttl)
		}
		if _, err := c.Add(t.Context(), "k", nil, ttl); err == nil {
			t.Errorf("add with a ttl of %v: no error", ttl)
		}
		if _, err := c.CompareAndSwap(t.Context(), "k", nil, nil, ttl); err == nil {
			t.Errorf("compare and swap with a ttl of %v: no error", ttl)
		}
	}
	if _, err := c.Get(t.Context(), "k"); !errors.Is(err, cache.ErrNotFound) {
		t.Errorf("get after refused writes: got %v, want ErrNotFound", err)
	}
}

func endedContext(t *testing.T, c cache.Cache) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for method, err := range callAll(ctx, c) {
		if !errors.Is(err, context.Canceled) || errors.Is(err, cache.ErrUnavailable) {
			t.Errorf("%s: got %v, want the context's error alone", method, err)
		}
	}
}

func closed(t *testing.T, c cache.Cache) {
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for method, err := range callAll(t.Context(), c) {
		if !errors.Is(err, cache.ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", method, err)
		}
	}
}

// callAll calls every method and returns its error.
func callAll(ctx context.Context, c cache.Cache) map[string]error {
	errs := map[string]error{}
	_, errs["get"] = c.Get(ctx, "k")
	errs["set"] = c.Set(ctx, "k", nil, lifetime)
	_, errs["add"] = c.Add(ctx, "k", nil, lifetime)
	_, errs["compare and swap"] = c.CompareAndSwap(ctx, "k", nil, nil, lifetime)
	errs["delete"] = c.Delete(ctx, "k")
	_, errs["run"] = c.Run(ctx, get, []string{"k"})
	errs["run all"] = c.RunAll(ctx, []cache.Run{{Script: get, Keys: []string{"k"}}})[0].Err
	errs["watch"] = c.Watch(ctx, "channel", func(string) {})
	return errs
}
