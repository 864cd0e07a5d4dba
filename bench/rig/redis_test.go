package rig

import (
	"context"
	"os"
	"testing"
)

func TestRedisLivesAsLongAsItIsToldTo(t *testing.T) {
	t.Parallel()
	r, err := StartRedis(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !r.answers(t.Context()) {
		t.Error("it does not answer")
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	if r.answers(t.Context()) {
		t.Error("it answers after its end")
	}
}

func TestRedisThatCannotStartIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(logFile(dir, "redis"), 0o700); err != nil { // no place for its log
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := StartRedis(ctx, dir); err == nil {
		t.Errorf("it runs at %s", r.URL)
	}
}
