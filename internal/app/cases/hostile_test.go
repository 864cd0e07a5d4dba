package cases

import (
	"io"
	"net/http"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var hostile = theme{
	"HOS_01": switchOfProtocolsHoldsNoCall,
	"HOS_02": connectionClosedWhileIdleCostsNothing,
	"HOS_03": absurdUsageLosesNoRow,
}

// switching answers with a switch of protocols and keeps the connection.
func switching(w http.ResponseWriter, r *http.Request, _ int) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn)
}

func switchOfProtocolsHoldsNoCall(t *testing.T) {
	const calls = 3
	a := apptest.NewUpstream(t, switching)
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "max_concurrent: 1", "timeouts: {total: 1m, first_token: 1m}")))

	for range calls { // more than there are places
		answer := g.Post(t, apptest.ChatBody)
		between(t, "the answer", answer.Took, 0, aWhile)
		equal(t, "status", answer.Status, http.StatusBadGateway)
	}

	unknown := neutral("alpha", "unknown", "upstream_status")
	rows(t, "attempts", g.Attempts(t, calls), unknown, unknown, unknown)
	equal(t, "the end of the gateway", g.Stop(), nil)
}

func connectionClosedWhileIdleCostsNothing(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.OK(), apptest.Reset(), apptest.OK()))
	g := apptest.Start(t, apptest.Configuration("", alpha(a)))

	served(t, g.Post(t, apptest.ChatBody), circuitA)
	served(t, g.Post(t, apptest.ChatBody), circuitA) // its first connection is gone

	equal(t, "requests of A", a.Calls(), 3)
	rows(t, "attempts", g.Attempts(t, 2), succeeded("alpha"), succeeded("alpha"))
	untroubled(t, g, circuitA)
}

func absurdUsageLosesNoRow(t *testing.T) {
	anomaly := func(input, cost any) apptest.Row {
		return apptest.Row{"input_tokens": input, "output_tokens": nil, "usage_anomaly": true, "cost_usd": cost, "unpriced": false}
	}
	for usage, want := range map[string]apptest.Row{
		`{"prompt_tokens":10,"completion_tokens":9223372036854775807}`: anomaly(10, "0.00001"),
		`{"prompt_tokens":1e17,"completion_tokens":-5}`:                anomaly(nil, nil),
		`{"prompt_tokens":"12","completion_tokens":2.5}`:               anomaly(nil, nil),
	} {
		t.Run(usage, func(t *testing.T) {
			t.Parallel()
			costs(t, "{input: 1, output: 5}", usage, want)
		})
	}
	t.Run("the most at the highest price", func(t *testing.T) {
		t.Parallel()
		costs(t, "{input: 1000000, output: 1000000}", `{"prompt_tokens":1000000000,"completion_tokens":1000000000}`,
			apptest.Row{"input_tokens": 1000000000, "output_tokens": 1000000000, "cost_usd": "2000000000", "unpriced": false})
	})
}
