package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/keys"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// chat serves POST /v1/chat/completions: decode, check, one call, encode.
func (d *data) chat(c echo.Context) error {
	snapshot, id, r := d.Snapshot(), identityOf(c), c.Request()
	caller, err := callerTimeout(r.Header)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	control, err := cacheControl(r.Header)
	if err != nil {
		return err
	}
	clocks := startClocks(r.Context(), id.receivedAt, snapshot.Limits, caller)
	defer clocks.stop()
	leave, ok := d.Gate.enter(clocks.cancel)
	if !ok {
		return shuttingDown()
	}
	defer leave()

	body, err := d.bodies.read(clocks.ctx, c.Response().Writer, r, snapshot.Limits)
	if err != nil {
		return err
	}
	defer body.release()
	call, err := newCall(snapshot, id, callerOf(c), r, body.bytes)
	if err != nil {
		return err
	}
	if key != "" {
		call.IdempotencyKey, call.Left = key, clocks.detach()
	}
	call.CacheControl = control
	call.Deadline = clocks.deadline()
	d.run(c, snapshot.Handle, call, clocks)
	return nil
}

// newCall makes a call of a request. Returns the fault that its client gets when
// the body is no chat request or names a model that is not served, or not to this
// caller.
func newCall(snapshot *Snapshot, id identity, caller *keys.Identity, r *http.Request, body []byte) (*llm.Call, error) {
	facts, err := openai.ReadFacts(body)
	if err != nil {
		return nil, badRequest(err)
	}
	route, ok := snapshot.Routes[facts.Model]
	if !ok {
		return nil, modelNotFound(facts.Model)
	}
	if !caller.May(facts.Model) {
		return nil, modelNotAllowed(caller.Name, facts.Model)
	}
	trace := traceOf(r.Header)
	return &llm.Call{
		RunID:          id.run,
		CorrelationID:  id.correlation,
		TraceID:        trace.id,
		Traceparent:    trace.parent,
		ReceivedAt:     id.receivedAt,
		Caller:         caller.AsCaller(),
		Operation:      llm.OperationChat,
		Dialect:        llm.DialectOpenAI,
		Configuration:  route.Configuration,
		RequestedModel: facts.Model,
		Body:           body,
		Facts:          facts,
		Codec:          openai.Codec{},
		Targets:        route.Targets,
		FallbackOn:     route.FallbackOn,
		Timeouts:       route.Timeouts,
		Signals:        &llm.Signals{},
	}, nil
}

// badRequest is what a client is told about a body that is no chat request.
func badRequest(err error) error {
	var invalid *openai.RequestError
	if !errors.As(err, &invalid) {
		return err
	}
	row := rowInvalidValue
	row.code = invalid.Code
	return &fault{row: row, param: invalid.Param, message: invalid.Message}
}

// run runs the call and writes what comes of it.
func (d *data) run(c echo.Context, handle Handler, call *llm.Call, clocks *clocks) {
	out := newAnswer(c.Response(), clocks, call)
	call.StatusOf, call.Deliver = out.statusOf, out.deliver
	defer out.settle() // also when the server's own way to drop a connection goes by
	result, err := d.guard(clocks.ctx, handle, call, out.emit)
	out.settle()
	if err == nil {
		err = out.deliver(result) // a pipeline that records nothing need not have done it
	}
	if err == nil && !out.delivered {
		err = errors.New("the pipeline returned neither an answer nor an error")
	}

	switch {
	case err == nil:
	case out.committed:
		out.cut(describeCut(err))
	case out.delivered: // a whole answer that was cut off; its length tells the client
	default:
		f := judged(call, err)
		logUnexpected(d.Log, c, err, f)
		if out.begun {
			out.cut(f.message)
			return
		}
		sayServed(c.Response().Header(), call.Signals.Reached(), answeredBy(err))
		sayRateLimits(c.Response().Header(), call.Signals.Standings)
		sayCache(c.Response().Header(), call.Signals.CacheResult)
		sendFault(c.Response(), clocks.limits.WriteTimeout, f)
	}
}

// guard runs the handler; a panic in it becomes an error, so that a stream that
// has begun still gets its error event.
func (d *data) guard(ctx context.Context, handle Handler, call *llm.Call, emit llm.Emit) (result *llm.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught(d.Log, identity{run: call.RunID}, p)
		}
	}()
	return handle(ctx, call, emit)
}

// answeredBy names the target whose own words the client gets: an upstream's
// refusal of the request is an answer, any other failure is none.
func answeredBy(err error) llm.Target {
	if v := llm.Judge(err); v.Answer == llm.AnswerClientError {
		return v.Failure.Target
	}
	return llm.Target{}
}

func contentTypeOf(result *llm.Result) string {
	if result.ContentType == "" {
		return contentJSON
	}
	return result.ContentType
}
