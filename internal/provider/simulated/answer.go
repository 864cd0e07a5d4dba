package simulated

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/sse"
	wire "github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// answerWords is what the model always says, cut at the caller's limit.
const answerWords = "The harbour lies still behind the breakwater while the storm goes on outside and every boat stays where it is."

// bytesPerToken is how long a token of the prompt is taken to be.
const bytesPerToken = 4

// reply is one answer: its words and what they are counted as.
type reply struct {
	id     string
	model  string
	words  []string
	finish string
	input  int
}

func newReply(facts llm.Facts) reply {
	r := reply{
		id:     "chatcmpl-simulated",
		model:  quoted(facts.Model),
		words:  strings.SplitAfter(answerWords, " "),
		finish: "stop",
		input:  max(1, facts.TextBytes/bytesPerToken),
	}
	if facts.MaxOutput > 0 && facts.MaxOutput < len(r.words) {
		r.words, r.finish = r.words[:facts.MaxOutput], "length"
	}
	return r
}

// answer is a good answer, or the beginning of one in mode cut.
func answer(req *http.Request, state State, facts llm.Facts) *http.Response {
	r := newReply(facts)
	if facts.Stream {
		resp := response(req, http.StatusOK, "text/event-stream", nil)
		resp.ContentLength = -1
		resp.Body = &paced{ctx: req.Context(), state: state, pieces: r.events(facts.IncludeUsage), prompt: 2}
		return resp
	}
	resp := response(req, http.StatusOK, "application/json", nil)
	resp.ContentLength = -1
	resp.Body = &paced{ctx: req.Context(), state: state, pieces: r.body(), prompt: 1}
	return resp
}

// body is the answer in one piece per word, so that it takes as long to come.
func (r reply) body() [][]byte {
	text := quoted(strings.Join(r.words, ""))
	whole := fmt.Sprintf(`{"id":%q,"object":"chat.completion","created":%d,"model":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null},"logprobs":null,"finish_reason":%q}],"usage":%s}`,
		r.id, created, r.model, text, r.finish, r.usage())
	pieces := make([][]byte, len(r.words))
	at := 0
	for i := range pieces {
		end := len(whole) * (i + 1) / len(pieces)
		pieces[i] = []byte(whole[at:end])
		at = end
	}
	return pieces
}

// events is the answer as a stream: a role, the words, a finish reason, usage
// when it was asked for, and the end mark.
func (r reply) events(usage bool) [][]byte {
	events := [][]byte{r.chunk(`{"role":"assistant","content":""}`, "null")}
	for _, w := range r.words {
		events = append(events, r.chunk(`{"content":`+quoted(w)+`}`, "null"))
	}
	events = append(events, r.chunk(`{}`, quoted(r.finish)))
	if usage {
		events = append(events, r.event(`[],"usage":`+r.usage()))
	}
	return append(events, wire.AppendDone(nil))
}

func (r reply) chunk(delta, finish string) []byte {
	return r.event(`[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]`)
}

// created is the same for every answer: the model is deterministic.
const created = 1793000000

func (r reply) event(choices string) []byte {
	data := fmt.Sprintf(`{"id":%q,"object":"chat.completion.chunk","created":%d,"model":%s,"choices":%s}`, r.id, created, r.model, choices)
	return sse.AppendData(nil, []byte(data))
}

func (r reply) usage() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, r.input, len(r.words), r.input+len(r.words))
}

func quoted(text string) string {
	b, _ := jsontext.AppendQuote(nil, text) // bytes that are no UTF-8 are replaced
	return string(b)
}
