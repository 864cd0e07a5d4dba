package breaker

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// Flush tells the store what there is to tell, which it takes as all there is.
func Flush(r *Registry) {
	if r.replica != nil {
		r.replica.margin = 0
		r.replica.flush(false)
	}
}

// Sweep lets the sweeper look once, without its goroutine.
func Sweep(r *Registry) {
	r.tend()
	if r.replica != nil {
		r.replica.flush(false)
	}
}

// Apart keeps the circuits of one test apart from those of others on one store.
func Apart(store Store) Store { return apart{store, strconv.FormatInt(aparts.Add(1), 10)} }

var aparts atomic.Int64

type apart struct {
	Store
	name string
}

func (a apart) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	for i, run := range runs {
		keys := make([]string, len(run.Keys))
		for k, key := range run.Keys {
			tag, rest, _ := strings.Cut(key, "}:")
			keys[k] = tag + "}:" + a.name + ":" + rest
		}
		runs[i].Keys = keys
	}
	return a.Store.RunAll(ctx, runs)
}

// Sending reports whether a canary of this replica is under way.
func Sending(r *Registry, key string) bool {
	c, ok := r.circuits.Load(key)
	return ok && c.(*circuit).sending.Load()
}

// Beat looks and tells everything once, as the goroutine does that talks to the
// store.
func Beat(r *Registry) { r.replica.beat(0) }

// Ask asks the store for every circuit.
func Ask(r *Registry) {
	for _, v := range r.circuits.Range {
		r.replica.ask(v.(*circuit))
	}
	r.replica.flush(false)
}

// RecordKey is where the store keeps a circuit.
func RecordKey(key string) string { return recordKey(groupOf(key), key) }
