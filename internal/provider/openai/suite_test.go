package openai_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestSuite(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T, b providertest.Behaviour, timeouts llm.Timeouts) provider.Client {
		upstream := providertest.Serve(t, behave(b))
		return open(t, openai.Config{BaseURL: upstream.URL + "/v1", Timeouts: timeouts})
	})
}

func open(t testing.TB, cfg openai.Config) *openai.Client {
	t.Helper()
	client, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// The pieces of a good answer.
const (
	completion  = `{"id":"c1","object":"chat.completion","created":1,"model":"m1","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`
	roleEvent   = `data: {"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	finishEvent = `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageEvent  = `data: {"id":"c1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}` + "\n\n"
	doneEvent   = "data: [DONE]\n\n"
)

func textEvent(text string) string {
	return fmt.Sprintf(`data: {"id":"c1","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", text)
}

func behave(b providertest.Behaviour) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch b.Mode {
		case providertest.Hangs:
			providertest.Hang(r)
		case providertest.Resets:
			providertest.Reset(w)
		case providertest.Refuses:
			if b.RetryAfter > 0 {
				w.Header().Set("Retry-After", fmt.Sprint(b.RetryAfter.Seconds()))
			}
			providertest.JSON(w, b.Status, `{"error":{"message":"no","type":"some_error","param":null,"code":null}}`)
		case providertest.Cuts:
			providertest.Stream(w, roleEvent, textEvent("Hel"))
			providertest.Abort()
		default:
			answer(w, r)
		}
	}
}

// answer answers as it was asked to.
func answer(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Accept"), "event-stream") {
		providertest.Stream(w, roleEvent, textEvent("o"), textEvent("k"), finishEvent, usageEvent, doneEvent)
		return
	}
	providertest.JSON(w, http.StatusOK, completion)
}
