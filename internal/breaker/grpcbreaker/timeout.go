package grpcbreaker

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
)

// ownDeadline is the key of the deadline that was set for the server.
type ownDeadline struct{}

// WithTimeout bounds a call by a clock that is the server's: when it ends the
// call, that is a failure of the server. A deadline that comes with the caller's
// own context, like its end, says nothing of the server and is neutral (R17).
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(d)
	return context.WithDeadline(context.WithValue(ctx, ownDeadline{}, deadline), deadline)
}

// endedByCaller reports whether a call came to no end of its own because its
// caller left or the caller's time was over.
func endedByCaller(ctx context.Context, err error) bool {
	switch codeOf(err) {
	case codes.Canceled:
		return ctx.Err() != nil
	case codes.DeadlineExceeded:
		return pastDeadline(ctx) && !onOwnClock(ctx)
	default:
		return false
	}
}

// pastDeadline reports whether the time is over. The server is told the deadline,
// too, and its word of it may come a moment before the clock rings here.
func pastDeadline(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// onOwnClock reports whether the deadline that comes first is the one that was
// set for the server.
func onOwnClock(ctx context.Context) bool {
	own, set := ctx.Value(ownDeadline{}).(time.Time)
	deadline, ok := ctx.Deadline()
	return set && ok && own.Equal(deadline)
}
