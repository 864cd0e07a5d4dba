package breaker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// proofScript does to two keys of its own what the steps of circuits do to
// theirs. A store that is full, or read-only, or does not let its user write,
// goes on answering who only asks, and would so pass for one that has lost every
// circuit.
var proofScript = &cache.Script{
	Name: "proof",
	Lua: `
redis.call('SET', KEYS[1], '', 'PX', ARGV[1])
redis.call('HSET', KEYS[2], '', '')
redis.call('PEXPIRE', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[2], '')
redis.call('PUBLISH', ARGV[2], '')
return {}
`,
	Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
		tx.Set(keys[0], "", proofTTL)
		tx.HashSet(keys[1], "", "", proofTTL)
		tx.HashDelete(keys[1], "")
		tx.Publish(args[1], "")
		return nil, nil
	},
}

const proofTTL = time.Second

// heed leaves a store alone at once that refuses what it is told. Until it obeys
// again every replica decides by itself.
func (s *replica) heed(err error) {
	if !errors.Is(err, cache.ErrRefused) {
		return
	}
	told := s.refused.Swap(true)
	s.leave()
	if hook := s.registry.onRefusal; hook != nil && !told {
		hook(err)
	}
}

// obeys reports whether a store that has refused does what it is told again, in
// every group that is in use and can be reached.
func (s *replica) obeys() bool {
	var runs []cache.Run
	for g := range groups {
		if s.inGroup[g].Load() > 0 {
			keys := []string{tag(g) + "proof", tag(g) + "proofs"}
			runs = append(runs, cache.Run{Script: proofScript, Keys: keys, Args: []string{strconv.FormatInt(proofTTL.Milliseconds(), 10), hints}})
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	answered := false
	for _, result := range s.store.RunAll(ctx, runs) {
		if errors.Is(result.Err, cache.ErrRefused) {
			s.leave()
			return false
		}
		answered = answered || result.Err == nil
	}
	return answered
}
