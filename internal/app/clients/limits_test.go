package clients

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

const asksKeys = "auth: {mode: keys}"

// refusedWith complains unless the client's own error says this.
func refusedWith(t *testing.T, err error, status int, kind, code string) *openai.Error {
	t.Helper()
	var refused *openai.Error
	if !errors.As(err, &refused) {
		t.Fatalf("error is %T %v, want *openai.Error", err, err)
	}
	if diff := cmp.Diff([]any{status, kind, code}, []any{refused.StatusCode, refused.Type, refused.Code}); diff != "" {
		t.Errorf("status, type, code (-want +got):\n%s", diff)
	}
	return refused
}

// What no wait of seconds changes is told at once: the client does not ask again.
func TestOpenAIClientDoesNotRetryWhatItMayNot(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		granted    string
		before     int // calls that are answered
		status     int
		kind, code string
	}{
		"no budget":       {`"limits":{"requests_per_day":1}`, 1, 402, "insufficient_quota", "budget_exceeded"},
		"far too fast":    {`"limits":{"requests_per_minute":1}`, 1, 429, "rate_limit_error", "rate_limit_exceeded"},
		"never at all":    {`"limits":{"concurrent":0}`, 0, 429, "rate_limit_error", "rate_limit_exceeded"},
		"another's model": {`"configurations":["alpha/m1"]`, 0, 403, "permission_error", "model_not_allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.OneTarget(upstream, asksKeys))
			asked := 0
			c := client(g, option.WithAPIKey(g.MintKeyWith(t, "shop", tc.granted).Text),
				option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
					asked++
					return next(r)
				}))
			for range tc.before {
				if _, err := c.Chat.Completions.New(t.Context(), question()); err != nil {
					t.Fatal(err)
				}
			}

			_, err := c.Chat.Completions.New(t.Context(), question())

			refusedWith(t, err, tc.status, tc.kind, tc.code)
			if asked != tc.before+1 || upstream.Calls() != tc.before {
				t.Errorf("the client asked %d times and A %d, want %d and %d", asked, upstream.Calls(), tc.before+1, tc.before)
			}
		})
	}
}

// A limit of the provider's that ends soon is waited for by the client itself.
func TestOpenAIClientWaitsForARateLimit(t *testing.T) {
	t.Parallel()
	upstream := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(http.StatusTooManyRequests, "Retry-After", "1"), apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(upstream))

	begun := time.Now()
	completion, err := new(client(g)).Chat.Completions.New(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	if got, calls := completion.Choices[0].Message.Content, upstream.Calls(); got != "ok" || calls != 2 {
		t.Errorf("content %q after %d calls, want ok after 2", got, calls)
	}
	if waited := time.Since(begun); waited < time.Second {
		t.Errorf("the client came back after %s, want at least the 1 s it was told", waited)
	}
}

// One call too many at once is sent again by the client itself, and served when the
// other has ended.
func TestOpenAIClientWaitsForItsOwnOtherCall(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	upstream := apptest.NewUpstream(t, apptest.Held(release, apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(upstream, asksKeys))
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	c := client(g, option.WithAPIKey(g.MintKey(t, "shop", `"concurrent":1`).Text), option.WithMaxRetries(10), // the other's end may be late
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			answer, err := next(r)
			if err == nil && answer.StatusCode == http.StatusTooManyRequests {
				let()
			}
			return answer, err
		}))
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := c.Chat.Completions.New(t.Context(), question()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if calls := upstream.Calls(); calls != 2 {
		t.Errorf("A was asked %d times, want 2", calls)
	}
}

// What is wrong with an Idempotency-Key is told by codes of its own.
func TestOpenAIClientReadsRefusalsOfItsKey(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	upstream := apptest.NewUpstream(t, apptest.Held(release, apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(upstream, "idempotency: {on_conflict: reject}"))
	c := client(g, option.WithHeader("Idempotency-Key", "order-1"), option.WithMaxRetries(0))
	first := make(chan error, 1)
	go func() {
		_, err := c.Chat.Completions.New(t.Context(), question())
		first <- err
	}()
	apptest.Eventually(t, func() string {
		if upstream.Calls() == 0 {
			return "A was not asked"
		}
		return ""
	})

	_, err := c.Chat.Completions.New(t.Context(), question())
	refusedWith(t, err, http.StatusConflict, "conflict_error", "idempotency_in_progress")
	other := question()
	other.Messages = append(other.Messages, openai.UserMessage("and say it again"))
	_, err = c.Chat.Completions.New(t.Context(), other)
	refusedWith(t, err, http.StatusUnprocessableEntity, "invalid_request_error", "idempotency_key_reused")

	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
