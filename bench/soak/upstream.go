package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// upstream is the model server of all providers. What a model does is told by
// its name.
type upstream struct {
	address  string
	server   *http.Server
	breaches *breaches
	received atomic.Int64 // requests, read to their end
}

func startUpstream(b *breaches) (*upstream, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{address: listener.Addr().String(), breaches: b}
	u.server = &http.Server{Handler: http.HandlerFunc(u.serve)}
	go func() { _ = u.server.Serve(listener) }() // until stop
	return u, nil
}

func (u *upstream) stop() error { return u.server.Close() }

// letGo closes the connections that serve no request just now.
func (u *upstream) letGo(ctx context.Context) error { return u.server.Shutdown(ctx) }

func (u *upstream) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the gateway gave it up
	}
	u.received.Add(1)
	r, err := read(body)
	if err != nil {
		u.breaches.broken(unaltered, "%v", err)
	}
	script, known := scripts()[r.model]
	if !known {
		u.breaches.broken(unaltered, "%s: asked for model %q", r.id, r.model)
		return
	}
	script(&exchange{w: w, ctx: req.Context(), received: r})
}

// exchange is one request and the way to answer it.
type exchange struct {
	received
	w   http.ResponseWriter
	ctx context.Context
}

// script answers a request.
type script func(x *exchange)

// scripts says what each model does.
func scripts() map[string]script {
	return map[string]script{
		"m1":      well(3, 12, 0),
		"slow":    well(25, 50, 20*time.Millisecond),
		"flood":   flood,
		"flaky":   sometimes(0.5, oneOf(status(500), status(502), status(503), status(529), page, broken, empty, inside)),
		"limited": sometimes(0.5, rateLimited),
		"cut":     sometimes(0.6, cut),
		"hang":    sometimes(0.5, hang),
		"refuse":  status(400),
		"locked":  status(401),
	}
}

// sometimes follows a script with a probability and else answers well.
func sometimes(probability float64, s script) script {
	fine := well(3, 12, 0)
	return func(x *exchange) {
		if rand.Float64() < probability {
			s(x)
			return
		}
		fine(x)
	}
}

func oneOf(all ...script) script {
	return func(x *exchange) { all[rand.IntN(len(all))](x) }
}

// well answers with a number of pieces from a range, with a pause before each.
func well(least, most int, pause time.Duration) script {
	return func(x *exchange) {
		n := least + rand.IntN(most-least)
		if !x.stream {
			x.rest(time.Duration(n) * pause / 2)
			x.whole(n)
			return
		}
		x.begin()
		for i := range n {
			x.rest(pause)
			x.chunk(piece(x.id, i), "null")
		}
		x.finish()
	}
}

// flood streams faster and more than a client that does not read has room for.
func flood(x *exchange) {
	if !x.stream {
		x.whole(3)
		return
	}
	padding := strings.Repeat("a", 16<<10)
	x.begin()
	for i := 0; i < 1024 && x.ctx.Err() == nil; i++ {
		x.chunk(piece(x.id, i)+padding, "null")
	}
	x.finish()
}

func status(code int) script {
	return func(x *exchange) {
		x.json(code, fmt.Sprintf(`{"error":{"message":"scripted %d","type":"scripted_error","param":null,"code":"scripted"}}`, code))
	}
}

func rateLimited(x *exchange) {
	x.w.Header().Set("Retry-After", "1")
	x.json(http.StatusTooManyRequests, `{"error":{"message":"too fast","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`)
}

// page is what a proxy in front of a model says.
func page(x *exchange) {
	x.w.Header().Set("Content-Type", "text/html")
	x.w.WriteHeader(http.StatusBadGateway)
	x.write("<html><body>Bad gateway</body></html>")
}

func broken(x *exchange) { x.json(http.StatusOK, `{"id":"chatcmpl-1","choices":[{"index":0,"mess`) }
func empty(x *exchange)  { x.json(http.StatusOK, "") }
func inside(x *exchange) {
	x.json(http.StatusOK, `{"error":{"message":"it failed","type":"server_error","code":500}}`)
}

// hang answers nothing until the gateway gives it up.
func hang(x *exchange) { <-x.ctx.Done() }

// cut ends an answer at some place where it must not end.
func cut(x *exchange) {
	if !x.stream {
		x.w.Header().Set("Content-Type", "application/json")
		x.w.Header().Set("Content-Length", "5000")
		x.write(`{"id":"chatcmpl-1","choices":[`)
		panic(http.ErrAbortHandler)
	}
	x.begin()
	pieces := rand.IntN(4) // none: before the client has seen anything
	for i := range pieces {
		x.chunk(piece(x.id, i), "null")
	}
	switch rand.IntN(4) {
	case 0: // no end mark
	case 1:
		x.write(`data: {"error":{"message":"it failed","type":"server_error","code":500}}` + "\n\n")
	case 2:
		x.write("data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"ind\n\n")
	default:
		x.flush()
		panic(http.ErrAbortHandler)
	}
}

func (x *exchange) json(code int, body string) {
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(code)
	x.write(body)
}

func (x *exchange) whole(pieces int) {
	var text strings.Builder
	for i := range pieces {
		text.WriteString(piece(x.id, i))
	}
	x.json(http.StatusOK, fmt.Sprintf(`{"id":"chatcmpl-%s","object":"chat.completion","created":1767225600,"model":"%s",`+
		`"choices":[{"index":0,"message":{"role":"assistant","content":"%s%s","refusal":null},"logprobs":null,"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":100,"completion_tokens":%d,"total_tokens":%d}}`,
		x.id, x.model, text.String(), lastPiece(x.id), pieces, 100+pieces))
}

func (x *exchange) begin() {
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.write(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n")
	x.flush()
}

func (x *exchange) chunk(text, finish string) {
	x.write(fmt.Sprintf(`data: {"id":"chatcmpl-%s","object":"chat.completion.chunk","created":1767225600,"model":"%s",`+
		`"choices":[{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":%s}]}`+"\n\n", x.id, x.model, text, finish))
	x.flush()
}

// finish ends a stream well. The gateway asks for the usage, whoever the client
// is; now and then it gets none all the same.
func (x *exchange) finish() {
	x.chunk(lastPiece(x.id), `"stop"`)
	if rand.IntN(10) > 0 {
		x.write(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}` + "\n\n")
	}
	x.write("data: [DONE]\n\n")
}

// write and flush do not report that the gateway is gone: the script then ends
// soon, or is told by the context.
func (x *exchange) write(text string) { _, _ = io.WriteString(x.w, text) }
func (x *exchange) flush()            { _ = http.NewResponseController(x.w).Flush() }

// rest lets time pass while the gateway is there.
func (x *exchange) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-x.ctx.Done():
	}
}
