package cachetest

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/google/go-cmp/cmp"
)

const long = "600000" // lifetime, as scripts take it

func scripts(t *testing.T, c cache.Cache) {
	k := []string{"k"}
	wantReply(t, mustRun(t, c, get, k))
	wantReply(t, mustRun(t, c, set, k, "v", long))
	wantReply(t, mustRun(t, c, get, k), "=v")
	wantReply(t, mustRun(t, c, set, k, "", long))
	wantReply(t, mustRun(t, c, get, k), "=")
	wantReply(t, mustRun(t, c, del, k))
	wantReply(t, mustRun(t, c, del, k))
	wantReply(t, mustRun(t, c, get, k))

	h := []string{"h"}
	wantReply(t, mustRun(t, c, hashAll, h))
	wantReply(t, mustRun(t, c, hashGet, h, "f"))
	wantReply(t, mustRun(t, c, hashDelete, h, "f"))
	wantReply(t, mustRun(t, c, hashSet, h, "f", "1", long))
	wantReply(t, mustRun(t, c, hashSet, h, "e", "2", "1"))
	wantReply(t, mustRun(t, c, hashSet, h, "f", "3", long))
	wantReply(t, mustRun(t, c, hashAll, h), "e", "2", "f", "3")
	wantReply(t, mustRun(t, c, hashGet, h, "f"), "=3")
	wantReply(t, mustRun(t, c, hashGet, h, "g"))
	wantReply(t, mustRun(t, c, hashDelete, h, "e"))
	wantReply(t, mustRun(t, c, hashAll, h), "f", "3")
	wantReply(t, mustRun(t, c, hashDelete, h, "f"))
	wantReply(t, mustRun(t, c, hashAll, h))
	if ok, err := c.Add(t.Context(), "h", nil, lifetime); !ok || err != nil {
		t.Errorf("a hash without fields is still there: add got %v, %v", ok, err)
	}

	before := time.Now()
	micros, err := strconv.ParseInt(mustRun(t, c, now, k)[0], 10, 64)
	if off := time.UnixMicro(micros).Sub(before); err != nil || off < -time.Minute || off > time.Minute {
		t.Errorf("the store's clock is %v off ours (%v)", off, err)
	}
}

func binaryScripts(t *testing.T, c cache.Cache) {
	odd := "\x00\r\n\xff*3\r\n"
	big := strings.Repeat("\x00\xfe", 1<<19)
	wantReply(t, mustRun(t, c, echo, []string{odd}, odd, "", big), odd, odd, "", big)
	wantReply(t, mustRun(t, c, set, []string{odd}, big, long))
	wantValue(t, c, odd, big)
	wantReply(t, mustRun(t, c, hashSet, []string{"h"}, odd, odd, long))
	wantReply(t, mustRun(t, c, hashAll, []string{"h"}), odd, odd)
}

func scriptErrors(t *testing.T, c cache.Cache) {
	_, err := c.Run(t.Context(), fail, []string{"k"})
	if err == nil || errors.Is(err, cache.ErrUnavailable) || errors.Is(err, cache.ErrNotFound) {
		t.Fatalf("got %v, want the script's own error", err)
	}
	for _, part := range []string{"fail", "this was meant"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	wantValue(t, c, "k", "before")
}

func kinds(t *testing.T, c cache.Cache) {
	mustRun(t, c, hashSet, []string{"h"}, "f", "v", long)
	_, errGet := c.Get(t.Context(), "h")
	_, errSwap := c.CompareAndSwap(t.Context(), "h", nil, nil, lifetime)
	_, errScript := c.Run(t.Context(), get, []string{"h"})
	mustSet(t, c, "b", "v", lifetime)
	_, errHash := c.Run(t.Context(), hashSet, []string{"b"}, "f", "v", long)
	_, errAll := c.Run(t.Context(), hashAll, []string{"b"})
	_, errDelete := c.Run(t.Context(), hashDelete, []string{"b"}, "f")
	for i, err := range []error{errGet, errSwap, errScript, errHash, errAll, errDelete} {
		if err == nil || errors.Is(err, cache.ErrNotFound) || errors.Is(err, cache.ErrUnavailable) {
			t.Errorf("call %d on a key of the other kind: got %v, want an error of its own", i, err)
		}
	}
	if ok, err := c.Add(t.Context(), "h", nil, lifetime); ok || err != nil {
		t.Errorf("add over a hash: got %v, %v, want false", ok, err)
	}
	mustSet(t, c, "h", "bytes now", lifetime)
	wantValue(t, c, "h", "bytes now")
	mustRun(t, c, del, []string{"b"})
	mustRun(t, c, hashSet, []string{"b"}, "f", "a hash now", long)
	if err := c.Delete(t.Context(), "b"); err != nil {
		t.Errorf("delete a hash: %v", err)
	}
	wantReply(t, mustRun(t, c, hashAll, []string{"b"}))
}

func slots(t *testing.T, c cache.Cache) {
	wantReply(t, mustRun(t, c, echo, []string{"a{t}", "b{t}c", "t"}), "a{t}", "b{t}c", "t")
	for name, keys := range map[string][]string{"two slots": {"a", "b"}, "no key": {}} {
		if got, err := c.Run(t.Context(), echo, keys); err == nil || errors.Is(err, cache.ErrUnavailable) {
			t.Errorf("%s: got %q, %v, want a refusal", name, got, err)
		}
		got := c.RunAll(t.Context(), []cache.Run{{Script: echo, Keys: keys}})
		if got[0].Err == nil || errors.Is(got[0].Err, cache.ErrUnavailable) {
			t.Errorf("%s in a batch: got %+v, want a refusal", name, got[0])
		}
	}
}

func runAll(t *testing.T, c cache.Cache) {
	if got := c.RunAll(t.Context(), nil); len(got) != 0 {
		t.Errorf("no runs: got %+v", got)
	}
	mustSet(t, c, "a", "1", lifetime)
	mustSet(t, c, "f", "bytes", lifetime)
	got := c.RunAll(t.Context(), []cache.Run{
		{Script: set, Keys: []string{"b"}, Args: []string{"2", long}},
		{Script: fail, Keys: []string{"f"}},
		{Script: echo, Keys: []string{"a", "b"}},
		{Script: get, Keys: []string{"a"}},
		{Script: get, Keys: []string{"absent"}},
		{Script: hashAll, Keys: []string{"f"}},
	})
	want := []cache.Result{{Values: []string{}}, {}, {}, {Values: []string{"=1"}}, {Values: []string{}}, {}}
	wantValue(t, c, "b", "2")
	for i := range got {
		failed := want[i].Values == nil
		if (got[i].Err != nil) != failed || errors.Is(got[i].Err, cache.ErrUnavailable) {
			t.Errorf("run %d: error %v, want one: %v", i, got[i].Err, failed)
		}
		if diff := cmp.Diff(want[i].Values, got[i].Values); diff != "" {
			t.Errorf("run %d (-want +got):\n%s", i, diff)
		}
	}
}

func runAllOrder(t *testing.T, c cache.Cache) {
	var runs []cache.Run
	for i := range 100 {
		runs = append(runs, cache.Run{Script: appendTo, Keys: []string{"k"}, Args: []string{strconv.Itoa(i % 10)}})
	}
	for i, got := range c.RunAll(t.Context(), runs) {
		if want := strings.Repeat("0123456789", 10)[:i+1]; got.Err != nil || got.Values[0] != want {
			t.Fatalf("run %d: got %q, %v, want %q", i, got.Values, got.Err, want)
		}
	}
}
