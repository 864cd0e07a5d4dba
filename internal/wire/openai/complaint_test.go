package openai_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/wire"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestErrorsOfRealServers(t *testing.T) {
	t.Parallel()
	tests := map[string]wire.Complaint{
		"openai_error_400_context_length.json":     {Type: "invalid_request_error", Code: "context_length_exceeded", Param: "messages", Native: true},
		"openai_error_429_insufficient_quota.json": {Type: "insufficient_quota", Code: "insufficient_quota", Native: true},
		"openai_error_500_server_error.json":       {Type: "server_error", Native: true},
		"vllm_error_400_context.json":              {Type: "BadRequestError", Code: "400", Param: "input_tokens", Status: 400, Native: true},
		"groq_error_498_flex.json":                 {Type: "capacity_exceeded", Code: "capacity_exceeded", Native: true},
		"mistral_error_400_unknown_model.json":     {Type: "invalid_request_error", Code: "unknown_model", Param: "model"},
		"mistral_error_422_validation.json":        {Type: "missing", Param: "messages"},
		"deepseek_error_402.json":                  {Type: "unknown_error", Code: "invalid_request_error", Native: true},
		"openrouter_error_402.json":                {Code: "402", Status: 402, Hints: []string{"openrouter_credits"}, Native: true},
		"openrouter_200_error_body.json":           {Code: "502", Status: 502, Native: true},
		"ollama_error_404_model.json":              {},
		"ollama_err_unknown_model.json":            {Type: "api_error", Native: true},
		"azure_error_400_content_filter.json":      {Code: "content_filter", Param: "prompt", Hints: []string{"ResponsibleAIPolicyViolation"}, Native: true},
		"azure_error_429.json":                     {Code: "429", Status: 429, Native: true},
		"gemini_error_400_api_key_invalid.json":    {Type: "INVALID_ARGUMENT", Code: "400", Status: 400, Hints: []string{"API_KEY_INVALID"}, Native: true},
		"gemini_error_429_per_minute.json": {
			Type: "RESOURCE_EXHAUSTED", Code: "429", Status: 429, RetryAfter: 18 * time.Second,
			Hints: []string{"GenerateRequestsPerMinutePerProjectPerModel"}, Native: true,
		},
		"cloudflare_error_522.html": {Markup: true},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := openai.ReadComplaint(read(t, name))
			if (got.Message == "") != want.Markup {
				t.Errorf("message %q, want one unless it is a page", got.Message)
			}
			got.Message = ""
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("complaint (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadComplaint(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want wire.Complaint
	}{
		"nothing":            {"", wire.Complaint{}},
		"plain text":         {"404 page\nnot found", wire.Complaint{Message: "404 page not found"}},
		"broken JSON":        {`{"error":`, wire.Complaint{Message: `{"error":`}},
		"a page":             {" <!DOCTYPE html><html>", wire.Complaint{Markup: true}},
		"a text under error": {`{"error":"no such model"}`, wire.Complaint{Message: "no such model"}},
		"an array around": {
			`[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`,
			wire.Complaint{Type: "INVALID_ARGUMENT", Code: "400", Status: 400, Message: "bad"},
		},
		"an empty array":    {`[]`, wire.Complaint{Message: "[]"}},
		"a text for detail": {`{"detail":"Not Found"}`, wire.Complaint{Message: "Not Found"}},
		"an object for detail": {
			`{"detail":{"status":"quota_exceeded","message":"no quota"}}`,
			wire.Complaint{Type: "quota_exceeded", Code: "quota_exceeded", Message: "no quota"},
		},
		"problem details": {
			`{"type":"about:blank","title":"Bad","status":400,"detail":"too bad"}`,
			wire.Complaint{Type: "about:blank", Message: "too bad"},
		},
		"an event of another dialect": {
			`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			wire.Complaint{Type: "overloaded_error", Message: "Overloaded", Native: true},
		},
		"moderation": {
			`{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"]}}}`,
			wire.Complaint{Code: "403", Status: 403, Message: "flagged", Hints: []string{"violence", "moderation"}, Native: true},
		},
		"a budget with an end": {
			`{"error":{"code":403,"message":"over","metadata":{"resets_at":"2026-12-01T00:00:00Z"}}}`,
			wire.Complaint{Code: "403", Status: 403, Message: "over", Hints: []string{"resets_at"}, Native: true},
		},
		"an error without a message": {`{"error":{"code":"x"}}`, wire.Complaint{Code: "x"}},
		"an error of another shape":  {`{"error":7,"message":"m"}`, wire.Complaint{Message: "m"}},
		"duplicate keys":             {`{"error":{"message":"a","message":"b"}}`, wire.Complaint{Message: "b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, openai.ReadComplaint([]byte(tt.body))); diff != "" {
				t.Errorf("complaint (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzReadComplaint(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"\ud800","code":1e9,"details":[{"retryDelay":"-1s"}]}}`))
	f.Add([]byte(`[[[[{"detail":[{"loc":[1,{}],"msg":"x"}]}]]]]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := openai.ReadComplaint(body)
		for _, s := range []string{c.Type, c.Code, c.Param, c.Message} {
			if !utf8.ValidString(s) {
				t.Fatalf("%q is no UTF-8", s)
			}
		}
		if c.RetryAfter < 0 || c.Status != 0 && (c.Status < 100 || c.Status > 599) {
			t.Fatalf("wait %v, status %d", c.RetryAfter, c.Status)
		}
		if c.Markup && strings.Contains(c.Message, "<") {
			t.Fatalf("markup in the message %q", c.Message)
		}
	})
}

func BenchmarkReadComplaint(b *testing.B) {
	body := []byte(`{"error":{"message":"Rate limit reached for requests","type":"requests","param":null,"code":"rate_limit_exceeded"}}`)
	b.ReportAllocs()
	for b.Loop() {
		openai.ReadComplaint(body)
	}
}
