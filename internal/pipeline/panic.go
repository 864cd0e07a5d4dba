package pipeline

import (
	"fmt"
	"runtime/debug"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// panicked is the failure of a call whose handler did not return: it panicked
// with value or, when value is nil, its goroutine was ended. Call it while the
// stack still shows where.
func panicked(value any) *llm.Failure {
	return &llm.Failure{
		Class:  llm.ClassUnknown,
		Reason: llm.ReasonPanic,
		Err:    fmt.Errorf("the call panicked: %v\n%s", value, debug.Stack()),
	}
}
