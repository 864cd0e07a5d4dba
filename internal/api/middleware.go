package api

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// observe logs one line per request, at debug: never a header, a query or a
// body, only what the gateway itself made or matched.
func observe(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			// Errors are answered here, so that the line holds their status.
			if err := next(c); err != nil {
				c.Error(err)
			}
			ctx := context.Background()
			if !log.Enabled(ctx, slog.LevelDebug) {
				return nil
			}
			id := identityOf(c)
			log.LogAttrs(ctx, slog.LevelDebug, "request served",
				slog.String("run_id", id.run.String()),
				slog.String("correlation_id", id.correlation),
				slog.String("method", c.Request().Method),
				slog.String("route", c.Path()),
				slog.Int("status", c.Response().Status),
				slog.Int64("took_us", time.Since(id.receivedAt).Microseconds()))
			return nil
		}
	}
}

// freshDeadline takes the write deadline off that the previous request of the
// same connection may have left behind.
func freshDeadline(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		_ = controlOf(c.Response()).SetWriteDeadline(time.Time{})
		return next(c)
	}
}

// noAttempts says that no upstream was reached, which holds until a call has
// reached one: whatever the data plane answers by itself says so.
func noAttempts(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		sayServed(c.Response().Header(), 0, llm.Target{})
		return next(c)
	}
}

// recoverPanics turns a panic of a handler into an error, its details into the
// log.
func recoverPanics(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = caught(log, identityOf(c), p)
				}
			}()
			return next(c)
		}
	}
}

// panicked is a panic that was caught; clients are told nothing of it.
type panicked struct{ value any }

func (p *panicked) Error() string { return "panic: " + llm.DescribePanic(p.value) }

// caught logs a recovered panic and returns it as an error. The server's own
// way to drop a connection goes on as what it is.
func caught(log *slog.Logger, id identity, p any) error {
	if p == http.ErrAbortHandler {
		panic(p)
	}
	log.Error("panic while serving a request", "run_id", id.run, "panic", llm.DescribePanic(p), "stack", string(debug.Stack()))
	return &panicked{value: p}
}
