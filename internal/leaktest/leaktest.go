// Package leaktest fails a package's tests for goroutines that they leave behind,
// as goleak does, and gives those that are about to end the time that a busy
// machine takes. It knows nothing of who started them.
package leaktest

import (
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end; goleak alone gives them less
// than half a second.
const patience = 30 * time.Second

// Main runs a package's tests and ends the process, with a failure when they left
// goroutines behind that the options do not name. goleak.Cleanup is not for it.
func Main(m goleak.TestingM, options ...goleak.Option) {
	goleak.VerifyTestMain(settling{m, options}, options...)
}

// settling is tests that are over when their goroutines have ended, or will not.
type settling struct {
	tests   goleak.TestingM
	options []goleak.Option
}

// Run runs the tests and returns their exit code.
func (s settling) Run() int {
	code := s.tests.Run()
	if code == 0 {
		settled(patience, s.options...)
	}
	return code
}

// settled reports whether the goroutines have ended in time.
func settled(limit time.Duration, options ...goleak.Option) bool {
	for late := time.Now().Add(limit); goleak.Find(options...) != nil; {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}
