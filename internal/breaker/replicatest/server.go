package replicatest

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// OpenServer starts a real server for a program that is no test. Close ends it.
// Where a test would fail the program panics.
func OpenServer() (server *redistest.Server, close func()) {
	p := &program{}
	return redistest.Start(p), p.close
}

// program stands for the test that a server wants.
type program struct {
	testing.TB
	closers []func()
}

func (p *program) Helper() {}

func (p *program) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (p *program) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (p *program) Cleanup(f func()) { p.closers = append(p.closers, f) }

func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", "breakwater-replicas-")
	if err != nil {
		panic(err)
	}
	p.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p *program) close() {
	for _, f := range slices.Backward(p.closers) {
		f()
	}
}
