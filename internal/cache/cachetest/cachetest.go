// Package cachetest is the suite that every implementation of cache.Cache
// passes. It knows none of them.
package cachetest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/google/go-cmp/cmp"
)

// Open returns an empty cache that ends with the test.
type Open func(t testing.TB) cache.Cache

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Open){
		"values come back byte by byte":          values,
		"an absent key is not found":             absent,
		"add writes only what is absent":         add,
		"compare and swap writes over the equal": compareAndSwap,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

func values(t *testing.T, open Open) {
	c := open(t)
	for name, value := range map[string][]byte{
		"empty":            {},
		"nil":              nil,
		"text":             []byte("value"),
		"binary":           []byte("\x00\r\n\xff$5\r\n"),
		"a megabyte":       bytes.Repeat([]byte{0, 1, 2, 0xfe}, 1<<18),
		"key \x00\r\n\xff": []byte("odd key"),
	} {
		if err := c.Set(t.Context(), name, value, time.Minute); err != nil {
			t.Fatalf("set %q: %v", name, err)
		}
		got, err := c.Get(t.Context(), name)
		if err != nil || !bytes.Equal(got, value) || got == nil {
			t.Errorf("get %q: got %d bytes (nil: %v), %v, want %d bytes", name, len(got), got == nil, err, len(value))
		}
	}
}

func absent(t *testing.T, open Open) {
	c := open(t)
	if err := c.Delete(t.Context(), "k"); err != nil {
		t.Errorf("delete an absent key: %v", err)
	}
	if err := c.Set(t.Context(), "k", []byte("v"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(t.Context(), "k"); !errors.Is(err, cache.ErrNotFound) {
		t.Errorf("get after delete: got %q, %v, want ErrNotFound", got, err)
	}
}

func add(t *testing.T, open Open) {
	c := open(t)
	var got [2]bool
	for i, value := range []string{"first", "second"} {
		var err error
		if got[i], err = c.Add(t.Context(), "k", []byte(value), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([2]bool{true, false}, got); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	wantValue(t, c, "k", "first")
}

func compareAndSwap(t *testing.T, open Open) {
	c := open(t)
	swap := func(old, next string, want bool) {
		t.Helper()
		got, err := c.CompareAndSwap(t.Context(), "k", []byte(old), []byte(next), time.Minute)
		if err != nil || got != want {
			t.Errorf("swap %q for %q: got %v, %v, want %v", old, next, got, err, want)
		}
	}
	swap("", "x", false)
	if err := c.Set(t.Context(), "k", nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	swap("x", "y", false)
	swap("", "a\x00", true)
	swap("a", "y", false)
	swap("a\x00", "z", true)
	wantValue(t, c, "k", "z")
}

func wantValue(t *testing.T, c cache.Cache, key, want string) {
	t.Helper()
	got, err := c.Get(t.Context(), key)
	if err != nil || string(got) != want {
		t.Errorf("value of %q: got %q, %v, want %q", key, got, err, want)
	}
}
