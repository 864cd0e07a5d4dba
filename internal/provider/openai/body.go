package openai

import (
	"bytes"
	"io"
	"net"
	"slices"
)

// joinBelow is the size, in bytes, below which the pieces of a request are
// joined. net/http sends the headers ahead of a reader that it does not know,
// in a packet of their own; the copy of a small body is cheaper than that.
const joinBelow = 64 << 10

// body is a request body that can be read more than once.
type body struct {
	pieces [][]byte
	length int
}

func newBody(pieces [][]byte) body {
	b := body{pieces: pieces}
	for _, p := range pieces {
		b.length += len(p)
	}
	if b.length < joinBelow {
		b.pieces = [][]byte{bytes.Join(pieces, nil)}
	}
	return b
}

// open returns the body from its start. Its error is always nil.
func (b body) open() (io.ReadCloser, error) {
	if len(b.pieces) == 1 {
		return io.NopCloser(bytes.NewReader(b.pieces[0])), nil
	}
	rest := net.Buffers(slices.Clone(b.pieces)) // reading consumes it
	return io.NopCloser(&rest), nil
}
