package cachetest

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

const (
	racers = 8
	rounds = 25
)

// race runs work on many goroutines at once and fails the test on its errors.
func race(t *testing.T, work func(ctx context.Context) error) {
	t.Helper()
	var group sync.WaitGroup
	for range racers {
		group.Go(func() {
			for range rounds {
				if err := work(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

func addRace(t *testing.T, c cache.Cache) {
	var round, won atomic.Int64
	race(t, func(ctx context.Context) error {
		key := strconv.FormatInt(round.Add(1)%rounds, 10)
		ok, err := c.Add(ctx, key, nil, lifetime)
		if ok {
			won.Add(1)
		}
		return err
	})
	if got := won.Load(); got != rounds {
		t.Errorf("adds that wrote: got %d for %d keys", got, rounds)
	}
}

func swapRace(t *testing.T, c cache.Cache) {
	mustSet(t, c, "n", "0", lifetime)
	race(t, func(ctx context.Context) error {
		for {
			old, err := c.Get(ctx, "n")
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(old))
			if err != nil {
				return err
			}
			if ok, err := c.CompareAndSwap(ctx, "n", old, []byte(strconv.Itoa(n+1)), lifetime); ok || err != nil {
				return err
			}
		}
	})
	wantValue(t, c, "n", strconv.Itoa(racers*rounds))
}

// scriptRace adds to two keys that must always be equal.
func scriptRace(t *testing.T, c cache.Cache) {
	keys := []string{"{n}1", "{n}2"}
	race(t, func(ctx context.Context) error {
		_, err := c.Run(ctx, countBoth, keys)
		return err
	})
	for _, key := range keys {
		wantValue(t, c, key, strconv.Itoa(racers*rounds))
	}
}

// countBoth adds one to each of two keys, when they are equal.
var countBoth = &cache.Script{
	Name: "count_both",
	Lua: `
local a, b = redis.call('GET', KEYS[1]) or '0', redis.call('GET', KEYS[2]) or '0'
if a ~= b then
  return redis.error_reply('ERR they differ')
end
redis.call('SET', KEYS[1], string.format('%d', a + 1), 'PX', 600000)
redis.call('SET', KEYS[2], string.format('%d', b + 1), 'PX', 600000)
return {}
`,
	Go: func(tx cache.Tx, keys, _ []string) ([]string, error) {
		a, b := number(tx, keys[0]), number(tx, keys[1])
		if a != b {
			return nil, errDiffer
		}
		tx.Set(keys[0], strconv.Itoa(a+1), lifetime)
		tx.Set(keys[1], strconv.Itoa(b+1), lifetime)
		return nil, nil
	},
}

func number(tx cache.Tx, key string) int {
	text, _ := tx.Get(key)
	n, _ := strconv.Atoi(text)
	return n
}
