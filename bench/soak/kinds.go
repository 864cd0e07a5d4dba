package main

import (
	"math/rand/v2"
	"time"
)

// end is how a call ended for its client.
type end string

const (
	served   end = "served"           // a whole answer
	cutShort end = "error event"      // a stream that said that it failed
	limited  end = "429"              // with a time to come back
	refused  end = "400, 401, 404, …" // by the gateway or the upstream
	failed   end = "5xx"
	left     end = "left" // by the client's own will
	lost     end = "no answer"
)

func allEnds() []end { return []end{served, cutShort, limited, refused, failed, left, lost} }

// kind is a sort of call that production sees.
type kind struct {
	name  string
	share int // of all calls, in relation to the other shares
	model string
	form  form
	due   []end // how it may end

	unrecorded bool                // refused before it becomes a call
	filler     func() int          // bytes of the prompt; nil = a few hundred
	spoil      func([]byte) []byte // makes the body what no client should send
	limit      string              // X-Breakwater-Timeout
	client     manner
}

// form says whether an answer is asked for whole or as a stream.
type form uint8

const (
	either form = iota
	whole
	stream
)

func (f form) streamed() bool { return f == stream || f == either && rand.IntN(2) == 0 }

// manner is how a client behaves.
type manner struct {
	leaveBefore time.Duration // leaves before the answer, after at most this long
	leaveAfter  int           // leaves in mid-stream, after at most so many events
	pause       time.Duration // between the events that it reads
	stuck       time.Duration // stops reading early in a stream, and is gone this much later
}

// kinds is a day of production.
func kinds() []kind {
	return []kind{
		{name: "whole answers", share: 250, model: "chat", form: whole, due: []end{served}},
		{name: "streams", share: 240, model: "chat", form: stream, due: []end{served}},
		{name: "slow streams", share: 60, model: "slow", form: stream, due: []end{served}},
		{name: "a target by its name", share: 20, model: "alpha/m1", due: []end{served}},
		{name: "prompts of 100 KiB to 2 MiB", share: 22, model: "chat", due: []end{served}, filler: bigPrompt},

		{name: "clients that leave before the answer", share: 20, model: "slow", due: []end{left}, client: manner{leaveBefore: 30 * time.Millisecond}},
		{name: "clients that leave in mid-stream", share: 60, model: "slow", form: stream, due: []end{left}, client: manner{leaveAfter: 12}},
		{name: "slow readers", share: 15, model: "chat", form: stream, due: []end{served}, client: manner{pause: 15 * time.Millisecond}},
		{name: "readers that stop reading", share: 3, model: "flood", form: stream, due: []end{left}, client: manner{stuck: 4 * time.Second}},
		{name: "callers with a limit of their own", share: 10, model: "slow", due: []end{served, cutShort, failed}, limit: "400ms"},

		{name: "a target that fails half the time", share: 100, model: "flaky", due: []end{served}},
		{name: "a target that is rate-limited", share: 50, model: "limited", due: []end{served}},
		{name: "the same without a fallback", share: 15, model: "limited-alone", due: []end{served, limited}},
		{name: "a target that cuts its answers", share: 60, model: "cut", due: []end{served, cutShort}},
		{name: "a target that hangs", share: 20, model: "hang", due: []end{served}},
		{name: "requests that the upstream refuses", share: 10, model: "refuse", due: []end{refused}},
		{name: "a target that refuses our key", share: 5, model: "locked", due: []end{failed}},

		{name: "malformed bodies", share: 30, model: "chat", due: []end{refused}, unrecorded: true, spoil: spoiled},
		{name: "models that do not exist", share: 10, model: "nobody", due: []end{refused}, unrecorded: true},
	}
}

// bigPrompt prefers the smaller ones, as life does.
func bigPrompt() int {
	return 100<<10 + int(float64(1900<<10)*rand.Float64()*rand.Float64())
}

// spoiled is a body that is no chat request.
func spoiled(body []byte) []byte {
	switch rand.IntN(6) {
	case 0:
		return body[:len(body)-1-rand.IntN(len(body)-1)]
	case 1:
		return append([]byte(`{"model":"chat",`), body[1:]...) // a duplicate key
	case 2:
		return append(body[:len(body)-1:len(body)-1], `,"x":`+string(make([]byte, 40))+`}`...)
	case 3:
		return []byte(`{"model":17,"messages":[]}`)
	case 4:
		return append(body[:len(body)-1:len(body)-1], ",\"x\":\"\xff\xfe\"}"...)
	default:
		return nil
	}
}

// choose returns kinds in the relation of their shares.
func choose(all []kind) func() *kind {
	sum := 0
	for _, k := range all {
		sum += k.share
	}
	return func() *kind {
		at := rand.IntN(sum)
		for i := range all {
			if at -= all[i].share; at < 0 {
				return &all[i]
			}
		}
		return &all[0] // not reached: at is below the sum
	}
}
