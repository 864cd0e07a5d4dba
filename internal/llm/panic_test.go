package llm

import (
	"errors"
	"testing"
)

func TestAPanicIsDescribedWithoutWhatItHolds(t *testing.T) {
	t.Parallel()
	var body []byte
	for name, tt := range map[string]struct {
		panics func()
		want   string
	}{
		"Go's own":         {func() { _ = body[len(body)+2] }, "runtime error: index out of range [2] with length 0"},
		"a type assertion": {func() { _ = any("sk-secret").(error) }, "interface conversion: string is not error: missing method Error"},
		"text":             {func() { panic("unexpected event sk-secret") }, "a value of type string"},
		"an error":         {func() { panic(errors.New("sk-secret")) }, "a value of type *errors.errorString"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if got := DescribePanic(recover()); got != tt.want {
					t.Errorf("described as %q, want %q", got, tt.want)
				}
			}()
			tt.panics()
		})
	}
}
