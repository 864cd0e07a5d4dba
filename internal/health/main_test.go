package health

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/breakwater-llm/breakwater/internal/leaktest"
)

// The test database's server belongs to the process and outlives the tests.
func TestMain(m *testing.M) {
	leaktest.Main(m,
		goleak.IgnoreAnyFunction("github.com/breakwater-llm/breakwater/internal/postgres/private.(*process).watch"),
		goleak.IgnoreAnyFunction("github.com/breakwater-llm/breakwater/internal/postgres/private.(*keeper).watch"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).writerDescriptor.func1"))
}
