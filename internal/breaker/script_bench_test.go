package breaker

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// BenchmarkScript is what a step costs on a real server: for its caller, and of
// the server's time, which all replicas share. Ten buckets, defaults otherwise.
func BenchmarkScript(b *testing.B) {
	s := testSettings()
	s.FailureRate, s.MaxNeutral = All/2, 1<<30
	success := delta{generation: firstGeneration, calls: 1, broken: true}
	failure := delta{generation: firstGeneration, calls: 1, failures: 1, tail: 1, row: 1, cause: "server_error"}
	b.Run("sync of nothing", func(b *testing.B) {
		g := setupScript(b, &s)
		g.run(b, stepSync, success.pack(true, 0)...)
		g.measure(b, func() { g.run(b, stepSync, (&delta{generation: firstGeneration}).pack(true, 0)...) })
	})
	b.Run("sync of a success", func(b *testing.B) {
		g := setupScript(b, &s)
		g.measure(b, func() { g.run(b, stepSync, success.pack(true, 0)...) })
	})
	b.Run("acquire that is refused", func(b *testing.B) {
		g := setupScript(b, &s)
		g.run(b, stepSync, failure.pack(true, 0)...)
		g.measure(b, func() { g.run(b, stepAcquire, pack(1, 0)) })
	})
	b.Run("acquire and settle of a probe", func(b *testing.B) {
		g := setupScript(b, &s)
		g.run(b, stepSync, failure.pack(true, 0)...)
		g.run(b, stepCommand, string(ActionHalfOpen), pack(0), "0", "", "")
		g.measure(b, func() {
			if got := g.run(b, stepAcquire, pack(1, 0))[0]; got != codeProbe {
				b.Fatalf("acquire: %s", got)
			}
			g.run(b, stepSettle, pack(0, 1, 0, float64(Neutral), 0), "")
		})
	})
}

// scriptRig is one circuit on a server of its own.
type scriptRig struct {
	server *redistest.Server
	store  *cache.Valkey
	args   []string
	keys   []string
}

func setupScript(b *testing.B, s *Settings) *scriptRig {
	b.Helper()
	server := redistest.Start(b)
	store, err := cache.OpenValkey(server.URL(), cache.ValkeyConfig{Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	const circuit = "openai/gpt-4o-mini/us-east-1"
	return &scriptRig{
		server: server, store: store, keys: []string{"cb:{07}:" + circuit, "cb:{07}:open"},
		args: []string{"", "", s.pack(), "511", "0.123456789", circuit},
	}
}

func (g *scriptRig) run(b *testing.B, step string, args ...string) []string {
	g.args[0] = step
	answer, err := g.store.Run(b.Context(), circuitScript, g.keys, append(g.args[:stepArgs:stepArgs], args...)...)
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

var usecPerCall = regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([0-9.]+)`)

// measure repeats a step and reports the server's own account of it.
func (g *scriptRig) measure(b *testing.B, step func()) {
	step() // brings the script to the server
	g.do(b, "CONFIG", "RESETSTAT")
	for b.Loop() {
		step()
	}
	told, _ := g.do(b, "INFO", "commandstats").(string)
	found := usecPerCall.FindStringSubmatch(told)
	if found == nil {
		b.Fatalf("the server says nothing about evalsha:\n%s", told)
	}
	usec, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(usec, "server-µs/call")
	size, _ := g.do(b, "MEMORY", "USAGE", g.keys[0]).(int64)
	b.ReportMetric(float64(size), "record-B")
}

func (g *scriptRig) do(b *testing.B, args ...string) any {
	b.Helper()
	answer, err := g.server.Do(args...)
	if err != nil {
		b.Fatal(err)
	}
	return answer
}
