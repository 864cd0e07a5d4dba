package cache_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// startCluster starts a cluster of n nodes that share all slots.
func startCluster(t testing.TB, n int) []*redistest.Server {
	t.Helper()
	nodes := make([]*redistest.Server, n)
	do := func(i int, args ...string) {
		t.Helper()
		if _, err := nodes[i].Do(args...); err != nil {
			t.Fatalf("node %d: %s: %v", i, strings.Join(args, " "), err)
		}
	}
	for i := range nodes {
		nodes[i] = redistest.Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "300000")
		do(i, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(16384*i/n), strconv.Itoa(16384*(i+1)/n-1))
		do(i, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for i := range nodes[1:] {
		host, port, _ := strings.Cut(nodes[0].Addr(), ":")
		do(i+1, "CLUSTER", "MEET", host, port)
	}
	for i, node := range nodes {
		eventually(t, fmt.Sprintf("node %d knows all slots", i), func() bool {
			about, err := node.Do("CLUSTER", "INFO")
			return err == nil && strings.Contains(fmt.Sprint(about), "cluster_state:ok") &&
				strings.Contains(fmt.Sprint(about), "cluster_size:"+strconv.Itoa(n))
		})
	}
	return nodes
}

// keyOn returns a key whose slot the i-th of two nodes serves.
func keyOn(i int) string {
	for n := 0; ; n++ {
		if key := fmt.Sprint("key ", n); cache.Slot(key) >= 8192 == (i == 1) {
			return key
		}
	}
}

func TestClusterOfTwoNodes(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 2)
	v := reach(t, nodes[0].URL(), cache.ValkeyConfig{Timeout: unhurried})
	var runs []cache.Run
	for i := range 64 {
		runs = append(runs, cache.Run{Script: count, Keys: []string{fmt.Sprint("key ", i)}})
	}
	for _, want := range []string{"1", "2"} {
		for i, r := range v.RunAll(t.Context(), runs) {
			if r.Err != nil || r.Values[0] != want {
				t.Errorf("run %d: got %v, %v, want %s", i, r.Values, r.Err, want)
			}
		}
		nodes[1].FlushScripts()
	}
	for i, node := range nodes {
		if got := len(node.Keys()); got == 0 || got == len(runs) {
			t.Errorf("node %d holds %d of %d keys, want a part of them", i, got, len(runs))
		}
	}
}

// A node that is late costs a batch its own runs, not the others'.
func TestClusterAnswersTheRunsOfItsLivingNodes(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 2)
	v := reach(t, nodes[0].URL(), cache.ValkeyConfig{Timeout: hurried})
	runs := []cache.Run{{Script: count, Keys: []string{keyOn(0)}}, {Script: count, Keys: []string{keyOn(1)}}}
	batch := func() (failed [2]bool) {
		for i, r := range v.RunAll(t.Context(), runs) {
			failed[i] = r.Err != nil
			if r.Err != nil && !errors.Is(r.Err, cache.ErrUnavailable) || (r.Err == nil) != (len(r.Values) == 1) {
				t.Errorf("run %d: got %q, %v", i, r.Values, r.Err)
			}
		}
		return failed
	}
	eventually(t, "both nodes answer", func() bool { return batch() == [2]bool{} })

	nodes[1].Freeze()
	eventually(t, "one node answers", func() bool { return batch() == [2]bool{false, true} })
	nodes[1].Thaw()
	eventually(t, "both nodes answer again", func() bool { return batch() == [2]bool{} })
}

// One node's loss leaves the other's keys served.
func TestClusterServesWhatItsLivingNodesHold(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 2)
	v := reach(t, nodes[0].URL(), cache.ValkeyConfig{Timeout: hurried})
	keys := [2]string{keyOn(0), keyOn(1)}
	call := func(key string) error {
		_, err := v.Run(t.Context(), count, []string{key})
		return err
	}
	for _, key := range keys {
		eventually(t, "both nodes serve", func() bool { return call(key) == nil })
	}

	for name, fault := range map[string]struct{ hurt, heal func() }{
		"killed": {nodes[1].Kill, nodes[1].Restart},
		"frozen": {nodes[1].Freeze, nodes[1].Thaw},
	} {
		fault.hurt()
		eventually(t, name+": the lost node's key fails", func() bool { return call(keys[1]) != nil })
		eventually(t, name+": the other key is served", func() bool { return call(keys[0]) == nil })
		fault.heal()
		eventually(t, name+": both serve again", func() bool { return call(keys[0]) == nil && call(keys[1]) == nil })
	}
}
