package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrNotFound says that the row asked for does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable says that the database cannot serve now and may later:
	// unreachable, starting, shutting down, full, too slow to answer in time.
	// The same statement may succeed when tried again.
	ErrUnavailable = errors.New("database unavailable")
)

// Translate is the border that the driver's errors pass once, in a room's
// repository: no row becomes ErrNotFound, a database that is away becomes
// ErrUnavailable; the driver's error stays in the chain, in one line. Others pass as
// they are, nil included.
func Translate(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrUnavailable):
		return err
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case unavailable(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, inOneLine(err))
	}
	return inOneLine(err)
}

func inOneLine(err error) error {
	if strings.Contains(err.Error(), ":\n") {
		return folded{err}
	}
	return err
}

// folded is an error of the driver in one line. It tries every address of a
// server, with TLS and without, and tells of each try on a line of its own.
type folded struct{ error }

func (e folded) Unwrap() error { return e.error }

// Error leaves out what a try says again.
func (e folded) Error() string {
	head, tries, _ := strings.Cut(e.error.Error(), ":\n")
	var told []string
	for line := range strings.Lines(tries) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(told, line) {
			told = append(told, line)
		}
	}
	return head + ": " + strings.Join(told, "; ")
}

func unavailable(err error) bool {
	// A caller who left says nothing about the database.
	if errors.Is(err, context.Canceled) {
		return false
	}
	var answered *pgconn.PgError
	if errors.As(err, &answered) {
		return passing(answered.Code)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded)
}

// passing tells the SQLSTATEs of a server that cannot serve now from those
// that complain about the statement or the one who sent it.
func passing(code string) bool {
	switch code {
	case "57P01", "57P02", "57P03", // shutting down, crashed, starting
		"25006", // read-only: a standby that has not been promoted yet
		"55P03", // lock not available within lock_timeout
		"58030": // I/O error
		return true
	}
	class := code[:min(2, len(code))]
	return class == "08" || class == "53" // connection, resources
}

// Conflicts reports whether an error says that what was to be written breaks a
// unique index.
func Conflicts(err error, index string) bool {
	var answered *pgconn.PgError
	return errors.As(err, &answered) && answered.Code == "23505" && answered.ConstraintName == index
}
