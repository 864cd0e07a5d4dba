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

// The first words of a server's errors that say that it cannot serve for the
// moment, and that it will not until a person does something.
var (
	hindrances = []string{"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"}
	refusals   = []string{"READONLY", "NOREPLICAS", "MISCONF", "OOM", "NOAUTH", "WRONGPASS", "NOPERM"}
)

// insideScript are parts of errors in which a script meets a refusal, which then
// has no word in front, or stands further behind on servers before version 7.
var insideScript = []string{"The user executing the script can't", "OOM command not allowed", "You can't write against a read only replica"}

// refuses reports whether a server's error is of that kind.
func refuses(word, said string) bool {
	return slices.Contains(refusals, word) || slices.ContainsFunc(insideScript, func(part string) bool { return strings.Contains(said, part) })
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
	switch {
	case refuses(word, said.Error()):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case slices.Contains(hindrances, word), strings.Contains(said.Error(), "max number of clients"):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
