package operators_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// Whatever people do on two gateways, and whatever happens to their ways to the
// database meanwhile: when both are there again, both do what was said last on
// each circuit, and so does one that starts then.
func TestTwoNodesComeToTheLastWord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { rapid.Check(inBubble{t}, converge) })
}

// inBubble hides from rapid the deadline of a test, which a bubble has not.
type inBubble struct{ *testing.T }

// said is the state that each action leads to.
var said = map[breaker.Action]string{
	breaker.ActionOpen: "forced_open", breaker.ActionDisable: "disabled", breaker.ActionShadow: "shadow",
	breaker.ActionClose: "closed", breaker.ActionReset: "closed",
}

func converge(t *rapid.T) {
	s := newShelf()
	nodes := []*node{start(t, s), start(t, s)}
	defer func() {
		for _, n := range nodes {
			n.end()
		}
	}()
	keys, words := []string{"k", "l"}, map[string]string{"k": "closed", "l": "closed"}
	actions := []breaker.Action{breaker.ActionOpen, breaker.ActionDisable, breaker.ActionShadow, breaker.ActionClose, breaker.ActionReset}
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		n := nodes[rapid.IntRange(0, 1).Draw(t, "node")]
		switch rapid.SampledFrom([]string{"say", "say", "say", "cut", "mend", "freeze", "thaw", "remind"}).Draw(t, "step") {
		case "say":
			key, action := rapid.SampledFrom(keys).Draw(t, "key"), rapid.SampledFrom(actions).Draw(t, "action")
			n.command(key, action, 0)
			words[key] = said[action]
			n.want(key, said[action])
		case "cut":
			n.way.cut(true)
		case "mend":
			n.way.cut(false)
		case "freeze":
			n.way.freeze()
		case "thaw":
			n.way.thaw()
		case "remind":
			n.overrides.Reassert()
		}
		wait(time.Duration(rapid.IntRange(1, 9000).Draw(t, "pause_ms")) * time.Millisecond)
	}
	for _, n := range nodes {
		n.way.cut(false)
		n.way.thaw()
	}
	for range 3 {
		settle()
	}
	nodes = append(nodes, start(t, s))
	var kept []string
	for _, key := range keys {
		for _, n := range nodes {
			n.want(key, words[key])
		}
		if words[key] != "closed" {
			kept = append(kept, key+" "+words[key])
		}
	}
	slices.Sort(kept)
	wantKept(t, s, kept...)
}
