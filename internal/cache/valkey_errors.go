package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

var (
	errAway    = fmt.Errorf("%w: the server is away", ErrUnavailable)
	errTooSlow = fmt.Errorf("%w: the server did not answer in time", ErrUnavailable)
)

// refusals are the first words of a server's errors that say that it cannot
// serve now, whatever it is asked.
var refusals = []string{
	"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "READONLY",
	"NOREPLICAS", "MISCONF", "OOM", "NOAUTH", "WRONGPASS", "NOPERM",
}

// timedOut is the answer to a call that ended before the server's: the caller's
// own error when the caller left, the server's fault otherwise.
func timedOut(ctx context.Context) error {
	err := ctx.Err()
	switch {
	case err == nil:
		return errTooSlow
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", errTooSlow, err)
	}
	return err
}

// translate turns the client's errors into ours. A server's complaint about the
// command or the script stays what it is.
func (l *line) translate(err error) error {
	if err == nil || rueidis.IsRedisNil(err) {
		return err
	}
	said, isAnswer := rueidis.IsRedisErr(err)
	if !isAnswer {
		if errors.Is(err, errAnswer) {
			return err
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	word, _, _ := strings.Cut(said.Error(), " ")
	switch {
	case word == "WRONGTYPE":
		return errWrongType
	case word == "READONLY" && !l.cluster:
		l.lose(err) // a replica now: the address may lead to another server
	}
	if slices.Contains(refusals, word) || strings.Contains(said.Error(), "max number of clients") {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
