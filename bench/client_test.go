package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// serveTest runs a handler and returns its address.
func serveTest(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestRightAnswersCount(t *testing.T) {
	t.Parallel()
	upstream := serveTest(t, new(upstreamCmd).handler(exchanges()))
	proxy := serveTest(t, newProxy(&url.URL{Scheme: "http", Host: upstream}))
	for name, address := range map[string]string{"upstream": upstream, "proxy": proxy} {
		for m, call := range exchanges() {
			t.Run(name+" "+string(m), func(t *testing.T) {
				t.Parallel()
				o := slice{address: address, call: call, concurrency: 3, calls: 50}.run(t.Context())
				if len(o.errs) != 0 || o.sent != 50 || len(o.timings) != 50 {
					t.Fatalf("%d sent, %d right, errors %v; want 50 sent and right", o.sent, len(o.timings), o.errs)
				}
				for _, timing := range o.timings {
					if timing.first <= 0 || timing.first > timing.total {
						t.Errorf("first text after %s of %s", timing.first, timing.total)
					}
				}
			})
		}
	}
}

func TestWrongAnswersDoNotCount(t *testing.T) {
	t.Parallel()
	right := string(exchanges()[stream].answer)
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"a refusal":    {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "full", http.StatusServiceUnavailable) }, "status 503: full"},
		"a byte":       {reply(strings.Replace(right, "word40", "word41", 1)), "wrong answer"},
		"a piece less": {reply(strings.TrimSuffix(right, "data: [DONE]\n\n")), "the answer ends after"},
		"a byte more":  {reply(right + "\n"), "wrong answer"},
		"a cut":        {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"a cut later": {func(w http.ResponseWriter, _ *http.Request) {
			reply(right[:5000])(w, nil)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "read the answer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := slice{address: serveTest(t, tt.handler), call: exchanges()[stream], concurrency: 1, calls: 2}.run(t.Context())
			if o.sent != 2 || len(o.timings) != 0 || len(o.errs) != 2 {
				t.Fatalf("%d sent, %d right, %d errors; want 2 sent, all wrong", o.sent, len(o.timings), len(o.errs))
			}
			if got := o.errs[0].Error(); !strings.Contains(got, tt.want) {
				t.Errorf("error %q, want one with %q", got, tt.want)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	o := slice{address: listener.Addr().String(), call: exchanges()[whole], concurrency: 2, calls: 4}.run(t.Context())
	if len(o.errs) != 4 {
		t.Errorf("%d errors, want 4", len(o.errs))
	}
}

func reply(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
}
