package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func BenchmarkCache(b *testing.B) {
	text := bytes.Repeat([]byte("word "), 400)
	next := func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
		return &llm.Result{Target: alpha, Status: 200, Body: []byte(completion(string(text)))}, nil
	}
	request := []byte(`{"model":"chat","messages":[{"role":"user","content":"` + string(text) + `"}]}`)
	for name, policy := range map[string]pipeline.CachePolicy{"off": {}, "hit": anHour} {
		for _, stream := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/stream=%v", name, stream), func(b *testing.B) {
				s := &shelf{kept: map[llm.KeptKey]llm.Kept{}}
				handle := pipeline.NewCache(pipeline.CachePolicies{Configurations: map[string]pipeline.CachePolicy{"chat": policy}, MaxEntry: 1 << 20}, s, &tally{n: map[llm.CacheResult]int{}}).Wrap(next)
				call := newCall(alpha)
				call.Codec, call.Body = openai.Codec{}, request
				_, _ = handle(b.Context(), call, nil)
				call.Facts.Stream = stream
				b.ReportAllocs()
				for b.Loop() {
					if _, err := handle(b.Context(), call, func(llm.Event) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
