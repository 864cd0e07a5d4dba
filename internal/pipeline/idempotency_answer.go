package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// answer is what a call came to, for the calls that are given it again.
type answer struct {
	run         string
	target      llm.Target
	status      int
	contentType string
	degraded    llm.Degradation
	streamed    bool
	body        []byte
	pieces      []int // of a stream: behind which bytes it may be divided
}

// storedAnswer is the first line of a stored answer; its body follows.
type storedAnswer struct {
	Run         string     `json:"run"`
	Target      llm.Target `json:"target"`
	Status      int        `json:"status"`
	ContentType string     `json:"content_type,omitempty"`
	Streamed    bool       `json:"streamed,omitempty"`
	Pieces      []int      `json:"pieces,omitempty"`
	Bytes       int        `json:"bytes"`
}

func (a *answer) encode() []byte {
	head, err := json.Marshal(storedAnswer{
		Run: a.run, Target: a.target, Status: a.status, ContentType: a.contentType,
		Streamed: a.streamed, Pieces: a.pieces, Bytes: len(a.body),
	})
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return append(append(head, '\n'), a.body...)
}

var errStored = errors.New("a stored answer cannot be read")

func decodeAnswer(stored []byte) (*answer, error) {
	head, body, _ := bytes.Cut(stored, []byte("\n"))
	var s storedAnswer
	if json.Unmarshal(head, &s) != nil || s.Bytes != len(body) {
		return nil, errStored
	}
	at := 0
	for _, end := range s.Pieces {
		if end < at || end > len(body) {
			return nil, errStored
		}
		at = end
	}
	return &answer{run: s.Run, target: s.Target, status: s.Status, contentType: s.ContentType, streamed: s.Streamed, pieces: s.Pieces, body: body}, nil
}

// encodeFailure is what those on other replicas are told who waited for a call that
// failed. Causes stay here: they are for this process's log.
func encodeFailure(err error) []byte {
	failures := []*llm.Failure{llm.AsFailure(err)}
	var exhausted *llm.ExhaustedError
	if errors.As(err, &exhausted) {
		failures = exhausted.Failures
	}
	told := make([]llm.Failure, len(failures))
	for i, f := range failures {
		told[i] = *f
		told[i].Err = nil
		if f.Class == llm.ClassUnknown && f.Reason == "" { // a fault of ours
			told[i].Reason = llm.ReasonPanic
		}
	}
	text, err := json.Marshal(told)
	if err != nil {
		return nil
	}
	return text
}

// decodeFailure returns nil when there is none.
func decodeFailure(text []byte) error {
	var failures []*llm.Failure
	if json.Unmarshal(text, &failures) != nil || len(failures) == 0 {
		return nil
	}
	if len(failures) == 1 {
		return failures[0]
	}
	return &llm.ExhaustedError{Failures: failures}
}

// replay gives an answer again. It costs nothing, and asks nobody.
func (k *keyed) replay(a *answer) (*llm.Result, error) {
	k.call.Signals.Degraded, k.call.Signals.KeptFrom = a.degraded, a.target
	result := &llm.Result{Target: a.target, Status: a.status, ContentType: a.contentType, Streamed: a.streamed}
	if !a.streamed {
		k.call.Signals.IdempotentReplay, k.call.Signals.OriginalRun = true, a.run
		result.Body = a.body
		return result, nil
	}
	at := 0
	for _, end := range a.pieces {
		if err := k.send(a.run, a.body[at:end]); err != nil {
			return result, err
		}
		at = end
	}
	return result, nil
}

// send gives the client a piece of a stream of another run.
func (k *keyed) send(run string, raw []byte) error {
	if err := k.gone(); err != nil {
		return err
	}
	if signals := k.call.Signals; !signals.Committed {
		signals.Committed, signals.FirstContent = true, time.Now()
		signals.IdempotentReplay, signals.OriginalRun = true, run
	}
	if err := k.emit(llm.Event{Raw: raw, Kind: llm.EventContent}); err != nil {
		return &llm.Failure{Class: llm.ClassCancelled, Reason: llm.CancelReason(err), Err: err}
	}
	return nil
}

// gone is the end of a replay whose client is gone: unlike an owner it has nothing
// to finish. A limit of the client's own ends waits, not answers.
func (k *keyed) gone() error {
	select {
	case <-k.left():
	default:
		return nil
	}
	cause := k.call.Left.Cause()
	if errors.Is(cause, llm.ErrCallerTimeout) {
		return nil
	}
	return &llm.Failure{Class: llm.ClassCancelled, Reason: llm.CancelReason(cause), Err: cause}
}

// unlimited is left, without the end of a limit that has passed already.
func (k *keyed) unlimited() <-chan struct{} {
	left := k.left()
	select {
	case <-left:
		if k.gone() == nil {
			return nil
		}
	default:
	}
	return left
}
