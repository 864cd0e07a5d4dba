package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"sync/atomic"
)

// request is one call on its way: whose it is can be told from every byte of
// its answer.
type request struct {
	*kind
	id     string
	stream bool
	body   []byte
}

// mark begins the part of a body that the upstream reads: the id, the checksum
// of the text, and the text up to the next quote.
const mark = "soak "

var prose = []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 50_000))

// writer makes requests, each with an id of its own.
type writer struct{ last atomic.Int64 }

func (w *writer) write(k *kind) *request {
	n := w.last.Add(1)
	r := &request{kind: k, id: "call" + strconv.FormatInt(n, 10), stream: k.form.streamed()}
	size := 200 + int(n%7)*100
	if k.filler != nil {
		size = k.filler()
	}
	text := prose[n%45:][:size]
	r.body = fmt.Appendf(make([]byte, 0, size+300), `{"messages":[{"role":"user","content":"%s%s %08x %s"}],"model":"%s","stream":%t,"temperature":0.2}`,
		mark, r.id, crc32.ChecksumIEEE(text), text, k.model, r.stream)
	if k.spoil != nil {
		r.body = k.spoil(r.body)
	}
	return r
}

// received is what an upstream finds in a body.
type received struct {
	id     string
	model  string
	stream bool
}

// read finds in a body what write has put there. Returns an error when anything
// that an upstream must see as it was sent is not so.
func read(body []byte) (received, error) {
	_, rest, found := bytes.Cut(body, []byte(mark))
	text, after, closed := bytes.Cut(rest, []byte(`"`))
	fields := bytes.SplitN(text, []byte(" "), 3)
	if !found || !closed || len(fields) != 3 {
		return received{}, fmt.Errorf("a body that nobody has sent: %.200q", body)
	}
	r := received{id: string(fields[0]), stream: bytes.Contains(after, []byte(`"stream":true`))}
	if sum := fmt.Sprintf("%08x", crc32.ChecksumIEEE(fields[2])); sum != string(fields[1]) {
		return r, fmt.Errorf("%s: the prompt has checksum %s, %s was sent", r.id, sum, fields[1])
	}
	_, after, _ = bytes.Cut(after, []byte(`"model":"`))
	model, after, found := bytes.Cut(after, []byte(`"`))
	r.model = string(model)
	if !found || !bytes.Contains(after, []byte(`"temperature":0.2`)) {
		return r, fmt.Errorf("%s: fields are missing behind the prompt: %.200q", r.id, after)
	}
	return r, nil
}
