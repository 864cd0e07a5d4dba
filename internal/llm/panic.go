package llm

import (
	"fmt"
	"runtime"
)

// DescribePanic says what a panic was, for the log. The words of Go itself name no
// value of ours; of anything else only the type is told, since it may hold a
// prompt, an answer or a key. Where it happened the stack says.
func DescribePanic(value any) string {
	if fault, ok := value.(runtime.Error); ok {
		return fault.Error()
	}
	return fmt.Sprintf("a value of type %T", value)
}
