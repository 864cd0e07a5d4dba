package contextasm_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/contextasm"
	"github.com/breakwater-llm/breakwater/internal/contextasm/contextasmtest"
	"github.com/breakwater-llm/breakwater/internal/contextasm/contextpb"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds what a test waits for; a busy machine needs most of it.
const patience = time.Minute

const circuit = "context/chat/default"

// newCircuits opens after two failures in a row, for long.
func newCircuits() *breaker.Registry {
	return breaker.New(breaker.Config{Settings: func(string) breaker.Settings {
		return breaker.Settings{
			Enabled: true, FailureThreshold: 2, Window: breaker.Window{Span: 30 * time.Second, Buckets: 10}, MinCalls: 10,
			SlowRate: breaker.All, Cooldown: time.Hour, CooldownMultiplier: 1, MaxCooldown: time.Hour, MaxRetryAfter: time.Hour,
			HalfOpenCalls: 1, SuccessThreshold: 1, MaxHalfOpen: time.Minute, Lease: time.Minute, StepDecay: time.Minute,
			MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
		}
	}})
}

// rig is a source whose assembler is a real server.
type rig struct {
	t        *testing.T
	server   *contextasmtest.Server
	circuits *breaker.Registry
	client   *contextasm.Client
	ask      contextasm.Ask
}

func setup(t *testing.T, tlsOf func(*contextasm.Config), options ...grpc.ServerOption) *rig {
	t.Helper()
	g := &rig{t: t, server: contextasmtest.Start(t, options...), circuits: newCircuits()}
	cfg := contextasm.Config{Address: g.server.Address, Circuits: g.circuits}
	if tlsOf != nil {
		tlsOf(&cfg)
	}
	client, err := contextasm.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	g.client = client
	g.ask = contextasm.Ask{Configuration: "chat", Circuit: circuit, Timeout: patience, MaxTokens: 500}
	return g
}

func (g *rig) assemble(ctx context.Context, text string) ([]string, error) {
	call := &llm.Call{
		CorrelationID: "order-17", TraceID: "0af7651916cd43dd8448eb211c80319c", Caller: llm.Caller{KeyID: "bw_secret"},
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Body:        []byte(`{"messages":[{"role":"system","content":"hidden"}]}`),
	}
	return g.client.Source(g.ask).Assemble(ctx, call, text)
}

func TestAnAnswerComesInItsOrder(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	g.server.Answers(contextasmtest.Knows("one", "", "two"))
	got, err := g.assemble(t.Context(), "ask")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "", "two"}, got); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	g.server.Answers(contextasmtest.Knows())
	if got, err := g.assemble(t.Context(), "ask"); err != nil || len(got) != 0 {
		t.Errorf("an empty answer: got %q and %v", got, err)
	}
}

// What leaves the house is this and nothing else.
func TestAQuestionHoldsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	if _, err := g.assemble(t.Context(), "what is a tide?"); err != nil {
		t.Fatal(err)
	}
	want := []*contextpb.AssembleRequest{{Configuration: "chat", CorrelationId: "order-17", Query: "what is a tide?", MaxTokens: 500}}
	if diff := cmp.Diff(want, g.server.Asked(), protocmp.Transform()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	header := g.server.Headers()[0]
	if got := header.Get("traceparent"); len(got) != 1 || !strings.HasPrefix(got[0], "00-0af7651916cd43dd8448eb211c80319c-") {
		t.Errorf("traceparent: got %q", got)
	}
	for name, values := range header {
		if text := fmt.Sprint(values); strings.Contains(text, "bw_secret") || strings.Contains(text, "hidden") {
			t.Errorf("metadata %s holds %s", name, text)
		}
	}
}

func TestALongQuestionIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	if _, err := g.assemble(t.Context(), "a"+strings.Repeat("é", 32<<10)); err != nil {
		t.Fatal(err)
	}
	if got := g.server.Asked()[0].GetQuery(); len(got) != 32<<10-1 || !utf8.ValidString(got) {
		t.Errorf("%d bytes were sent, valid: %v; want %d that are", len(got), utf8.ValidString(got), 32<<10-1)
	}
}

// Its own time is over: a failure. Two of them open the circuit, and the server
// is left alone.
func TestASilentAssemblerIsLeftAlone(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	g.ask.Timeout = 100 * time.Millisecond
	g.server.Answers(contextasmtest.Hangs)
	for range 2 {
		if _, err := g.assemble(t.Context(), "ask"); status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("got %v, want DeadlineExceeded", err)
		}
	}
	_, err := g.assemble(t.Context(), "ask once more")
	var refusal *breaker.Refusal
	if !errors.As(err, &refusal) || refusal.Key != circuit || refusal.Cause != "deadline_exceeded" {
		t.Errorf("the third: got %v, want the refusal of %s", err, circuit)
	}
	g.server.Answers(contextasmtest.Knows())
	g.ask.Circuit, g.ask.Timeout = "context/other/default", patience
	if _, err := g.assemble(t.Context(), "the last"); err != nil { // behind it on the same connection
		t.Fatal(err)
	}
	for _, request := range g.server.Asked() { // the first two may be late
		if request.GetQuery() == "ask once more" {
			t.Error("the refused one has not stayed here")
		}
	}
}

// Each configuration has a circuit of its own in front of the same server.
func TestCircuitsAreTheConfigurations(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	g.server.Answers(contextasmtest.Fails(status.Error(codes.Internal, "broken")))
	for range 2 {
		_, _ = g.assemble(t.Context(), "ask")
	}
	g.ask.Circuit = "context/other/default"
	if _, err := g.assemble(t.Context(), "ask"); status.Code(err) != codes.Internal {
		t.Errorf("behind the other circuit: got %v, want the server's own words", err)
	}
}

func TestACallerWhoLeavesSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	g.server.Answers(func(ctx context.Context) ([]string, error) {
		leave()
		return contextasmtest.Hangs(ctx)
	})
	if _, err := g.assemble(ctx, "ask"); status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want Canceled", err)
	}
	if s, _ := g.circuits.Circuit(circuit); s.Neutral != 1 || s.Failures != 0 {
		t.Errorf("circuit: %d neutral, %d failures; want 1 and 0", s.Neutral, s.Failures)
	}
}

func TestAnAnswerOverAllBoundsIsAFailure(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	g.server.Answers(contextasmtest.Knows(strings.Repeat("x", 2<<20)))
	if _, err := g.assemble(t.Context(), "ask"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
}

func TestSlowAnswersAreCounted(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	g.ask.SlowAfter = time.Nanosecond
	if _, err := g.assemble(t.Context(), "ask"); err != nil {
		t.Fatal(err)
	}
	if s, _ := g.circuits.Circuit(circuit); s.Slow != 1 {
		t.Errorf("%d slow calls, want 1", s.Slow)
	}
}

// A server that was away is asked again within moments of its return, by the
// circuit's word and not by the connection's.
func TestAServerThatComesBackIsFound(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	if _, err := g.assemble(t.Context(), "ask"); err != nil {
		t.Fatal(err)
	}
	g.server.Stop()
	for range 2 {
		if _, err := g.assemble(t.Context(), "ask"); status.Code(err) != codes.Unavailable {
			t.Fatalf("got %v, want Unavailable", err)
		}
	}
	g.server.Restart()
	deadline, tick := time.Now().Add(patience), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := g.circuits.Command(t.Context(), circuit, breaker.Command{Action: breaker.ActionReset}); err != nil {
			t.Fatal(err)
		}
		_, err := g.assemble(t.Context(), "ask")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %v", err)
		}
	}
}

func TestTLSIsSpokenWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	certificate, roots := certify(t)
	served := grpc.Creds(credentials.NewServerTLSFromCert(&certificate))

	trusting := setup(t, func(c *contextasm.Config) { c.TLS = &tls.Config{RootCAs: roots} }, served)
	if _, err := trusting.assemble(t.Context(), "ask"); err != nil {
		t.Errorf("with its certificate: %v", err)
	}
	for name, tlsOf := range map[string]func(*contextasm.Config){
		"unknown certificate": func(c *contextasm.Config) { c.TLS = new(tls.Config) },
		"no TLS":              nil,
	} {
		g := setup(t, tlsOf, served)
		if _, err := g.assemble(t.Context(), "ask"); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: got %v, want Unavailable", name, err)
		}
	}
}

// certify makes a certificate for the loopback address.
func certify(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "assembler"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestCloseMayBeCalledAgain(t *testing.T) {
	t.Parallel()
	g := setup(t, nil)
	if err := errors.Join(g.client.Close(), g.client.Close()); err != nil {
		t.Error(err)
	}
	if _, err := g.assemble(t.Context(), "ask"); status.Code(err) != codes.Canceled {
		t.Errorf("after it: got %v, want Canceled", err)
	}
}
