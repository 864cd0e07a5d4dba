package budget_test

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// BenchmarkCall reserves and settles in one scope, under the limits of a day and
// under every kind of limit after a minute that had calls in each second, while
// other calls are under way. On a server it also says how long that was busy with
// one run of the script.
func BenchmarkCall(b *testing.B) {
	big := n(1 << 50)
	for _, limited := range []struct {
		name   string
		limits llm.Limits
	}{
		{"day", llm.Limits{RequestsPerDay: big, TokensPerDay: big, CostPerDay: capped("9000000")}},
		{"all", llm.Limits{
			RequestsPerDay: big, TokensPerDay: big, CostPerDay: capped("9000000"), RequestsPerMonth: big, TokensPerMonth: big,
			CostPerMonth: capped("9000000"), RequestsPerMinute: n(1 << 31), TokensPerMinute: big, Concurrent: big,
		}},
	} {
		for _, live := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("memory/%s/%d", limited.name, live), func(b *testing.B) {
				m := cache.NewMemory(cache.MemoryConfig{})
				b.Cleanup(func() { _ = m.Close() })
				benchmarkCall(b, m, limited.limits, live)
			})
			b.Run(fmt.Sprintf("server/%s/%d", limited.name, live), func(b *testing.B) {
				server := redistest.Start(b)
				v, err := cache.OpenValkey(server.URL(), cache.ValkeyConfig{Timeout: 10 * time.Second})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = v.Close() })
				benchmarkCall(b, v, limited.limits, live)
				b.ReportMetric(busy(b, server), "server-µs/script")
			})
		}
	}
}

func benchmarkCall(b *testing.B, store cache.Cache, limits llm.Limits, live int) {
	l := budget.NewLedger(budget.LedgerConfig{}, store, nil, nil)
	l.Start()
	b.Cleanup(func() { stop(l) })
	begin := func() *budget.Account {
		a := l.Open(uuid.New(), time.Now(), governed(limits))
		if _, err := a.Reserve(b.Context(), amount(100, "0.001")); err != nil {
			b.Fatal(err)
		}
		return a
	}
	now := time.Now()
	for ago := range 60 {
		budget.Fix(l, func() time.Time { return now.Add(time.Duration(ago-60) * time.Second) })
		begin().Settle(amount(50, "0.0005"), true)
	}
	budget.Fix(l, nil)
	for range live - 1 {
		begin()
	}
	b.ReportAllocs()
	for b.Loop() {
		begin().Settle(amount(50, "0.0005"), true)
	}
}

var perCall = regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([0-9.]+)`)

// busy is how long the server was busy with one run of a script, in microseconds.
func busy(b *testing.B, server *redistest.Server) float64 {
	b.Helper()
	at, err := url.Parse(server.URL())
	if err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "INFO commandstats\r\nQUIT\r\n"); err != nil {
		b.Fatal(err)
	}
	var said strings.Builder
	if _, err := bufio.NewReader(conn).WriteTo(&said); err != nil {
		b.Fatal(err)
	}
	found := perCall.FindStringSubmatch(said.String())
	if found == nil {
		b.Fatalf("the server counts no scripts: %s", said.String())
	}
	us, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return us
}
