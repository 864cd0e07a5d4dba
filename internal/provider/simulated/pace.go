package simulated

import (
	"context"
	"fmt"
	"io"
	"time"
)

// paced is a body that comes piece by piece at the model's speed.
type paced struct {
	ctx    context.Context // the request's: a response body ends with it
	state  State
	pieces [][]byte
	prompt int // pieces that come at once, up to the first word
	given  int
	rest   []byte
}

// Read returns the next bytes when their time has come. In mode cut the
// connection breaks half-way.
func (p *paced) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		if err := p.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *paced) next() error {
	if p.state.Mode == ModeCut && p.given > len(p.pieces)/2 {
		return fmt.Errorf("simulated: %w", io.ErrUnexpectedEOF)
	}
	if p.given == len(p.pieces) {
		return io.EOF
	}
	if p.given >= p.prompt && p.state.TokensPerSecond > 0 {
		pause := time.Duration(float64(time.Second) / p.state.TokensPerSecond)
		if err := sleep(p.ctx, pause); err != nil {
			return err
		}
	}
	p.rest = p.pieces[p.given]
	p.given++
	return nil
}

// Close does nothing: there is no connection.
func (p *paced) Close() error { return nil }
