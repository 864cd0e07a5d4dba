package provider_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/wire"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

type verdict struct {
	class  llm.FailureClass
	reason llm.Reason
}

var (
	upstreamStatus = verdict{llm.ClassServerError, llm.ReasonUpstreamStatus}
	overloaded     = verdict{llm.ClassServerError, llm.ReasonOverloaded}
	streamError    = verdict{llm.ClassServerError, llm.ReasonStreamError}
	lost           = verdict{llm.ClassConnection, llm.ReasonUpstreamStatus}
	rateLimit      = verdict{llm.ClassRateLimit, llm.ReasonRateLimited}
	quota          = verdict{llm.ClassQuota, llm.ReasonQuotaExhausted}
	credentials    = verdict{llm.ClassAuth, llm.ReasonInvalidCredentials}
	forbidden      = verdict{llm.ClassAuth, llm.ReasonForbidden}
	noModel        = verdict{llm.ClassConfiguration, llm.ReasonModelNotFound}
	unsupported    = verdict{llm.ClassConfiguration, llm.ReasonUnsupported}
	redirected     = verdict{llm.ClassConfiguration, llm.ReasonRedirected}
	badRequest     = verdict{llm.ClassClientError, llm.ReasonInvalidRequest}
	filtered       = verdict{llm.ClassClientError, llm.ReasonContentFilter}
	tooLong        = verdict{llm.ClassClientError, llm.ReasonContextLength}
	unknown        = verdict{llm.ClassUnknown, llm.ReasonUpstreamStatus}
)

func classify(status int, c wire.Complaint) verdict {
	class, reason := provider.Classify(status, c)
	return verdict{class, reason}
}

func TestClassifyByStatus(t *testing.T) { // CLS-11, CF-A2, CF-C2
	t.Parallel()
	tests := map[verdict][]int{
		redirected:     {300, 301, 302, 304, 307, 308},
		badRequest:     {400, 405, 406, 409, 410, 411, 413, 414, 415, 416, 418, 422, 423, 424, 431},
		credentials:    {401, 407},
		quota:          {402, 456},
		forbidden:      {403},
		noModel:        {404},
		lost:           {408, 425},
		rateLimit:      {429, 498},
		unknown:        {499, 100, 600, 999},
		upstreamStatus: {500, 502, 503, 504, 507, 520, 521, 522, 523, 524, 525, 526, 527, 530, 599},
		unsupported:    {501, 505},
		overloaded:     {529},
		streamError:    {200, 201},
	}
	for want, statuses := range tests {
		for _, status := range statuses {
			if got := classify(status, wire.Complaint{}); got != want {
				t.Errorf("status %d is %v, want %v", status, got, want)
			}
		}
	}
}

func TestClassifyWhatRealServersSay(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		want   verdict
	}{
		"openai_error_400_context_length.json":     {400, tooLong},
		"openai_error_400_invalid_request.json":    {400, badRequest},
		"openai_error_401_invalid_api_key.json":    {401, credentials},
		"openai_error_403_region.json":             {403, forbidden},
		"openai_error_404_model_not_found.json":    {404, noModel},
		"openai_error_429_credit_balance.json":     {429, quota},
		"openai_error_429_insufficient_quota.json": {429, quota}, // CLS-01
		"openai_error_429_rate_limit.json":         {429, rateLimit},
		"openai_error_429_slow_down.json":          {429, rateLimit},
		"openai_error_500_server_error.json":       {500, upstreamStatus},
		"openai_error_503_overloaded.json":         {503, overloaded},
		"vllm_error_400_context.json":              {400, tooLong},
		"vllm_error_404.json":                      {404, noModel},
		"groq_error_413.json":                      {413, tooLong},
		"groq_error_498_flex.json":                 {498, rateLimit},
		"mistral_error_400_unknown_model.json":     {400, noModel},
		"mistral_error_422_validation.json":        {422, badRequest},
		"mistral_error_429.json":                   {429, rateLimit},
		"deepseek_error_402.json":                  {402, quota},
		"openrouter_error_402.json":                {402, quota},
		"openrouter_error_502.json":                {502, upstreamStatus},
		"openrouter_200_error_body.json":           {200, upstreamStatus},
		"ollama_error_400_invalid.json":            {400, badRequest},
		"ollama_error_404_model.json":              {404, noModel},
		"ollama_error_500_oom.json":                {500, upstreamStatus},
		"ollama_error_500_runner.json":             {500, upstreamStatus},
		"ollama_error_503_queue_full.json":         {503, overloaded},
		"ollama_err_unknown_model.json":            {404, noModel},
		"ollama_err_tools_unsupported.json":        {400, badRequest},
		"ollama_err_messages_a_string.json":        {400, badRequest},
		"azure_error_400_content_filter.json":      {400, filtered}, // CLS-05
		"azure_error_401.json":                     {401, credentials},
		"azure_error_404_deployment.json":          {404, noModel},
		"azure_error_429.json":                     {429, rateLimit},
		"cloudflare_error_522.html":                {522, upstreamStatus},
		"gemini_error_400_api_key_invalid.json":    {400, credentials},
		"gemini_error_400_invalid_argument.json":   {400, badRequest},
		"gemini_error_400_location.json":           {400, unsupported},
		"gemini_error_402_prepay.json":             {402, quota},
		"gemini_error_403.json":                    {403, forbidden},
		"gemini_error_404_model.json":              {404, noModel},
		"gemini_error_429_per_day.json":            {429, quota},
		"gemini_error_429_per_minute.json":         {429, rateLimit},
		"gemini_error_500.json":                    {500, upstreamStatus},
		"gemini_error_503.json":                    {503, overloaded},
		"gemini_error_504.json":                    {504, upstreamStatus},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := os.ReadFile(filepath.Join("../wire/openai/testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			if got := classify(tt.status, openai.ReadComplaint(body)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestClassifyByWords(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		body   string
		want   verdict
	}{
		"credit in a 400 (CLS-12)":         {400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`, quota},
		"a spend limit in a 400":           {400, `{"error":{"message":"You have reached your specified API usage limits."}}`, quota},
		"a project's spend limit":          {429, `{"error":{"message":"x","code":"project_spend_limit_exceeded"}}`, quota},
		"quota in a 401":                   {401, `{"detail":{"status":"quota_exceeded","message":"x"}}`, quota},
		"a budget in a 403":                {403, `{"error":{"code":403,"message":"x","metadata":{"resets_at":"2026-12-01"}}}`, quota},
		"moderation in a 403":              {403, `{"error":{"code":403,"message":"x","metadata":{"reasons":["violence"]}}}`, filtered},
		"money in flight":                  {402, `{"error":{"code":402,"message":"x","metadata":{"limit_source":"openrouter_in_flight_budget"}}}`, rateLimit},
		"too large for a minute":           {429, `{"error":{"message":"Request too large for gpt-x in organization o on tokens per min (TPM)","type":"tokens","code":"rate_limit_exceeded"}}`, tooLong},
		"413 of a model (CLS-13)":          {413, `{"error":{"message":"request too large for model"}}`, tooLong},
		"413 of an edge":                   {413, `<html>413 Request Entity Too Large</html>`, badRequest},
		"a content policy":                 {400, `{"error":{"message":"x","code":"content_policy_violation"}}`, filtered},
		"529 (CLS-03)":                     {529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, overloaded},
		"a key in a 400":                   {400, `[{"error":{"code":400,"message":"x","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]`, credentials},
		"a page for 403":                   {403, `<html>error code: 1020</html>`, forbidden},
		"a path for 404":                   {404, `404 page not found`, noModel},
		"words of money in a 500":          {500, `{"error":{"message":"x","type":"insufficient_quota"}}`, upstreamStatus},
		"another gateway's open circuit":   {503, `{"error":{"message":"x","type":"service_unavailable_error","code":"circuit_open"}}`, overloaded},
		"inside: a status":                 {200, `{"error":{"message":"x","code":503},"choices":null}`, upstreamStatus}, // BOD-03
		"inside: a client's status":        {200, `{"error":{"message":"x","code":400}}`, badRequest},
		"inside: overloaded (END-03)":      {200, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, overloaded},
		"inside: a rate limit":             {200, `{"error":{"message":"x","type":"rate_limit_error"}}`, rateLimit},
		"inside: no quota":                 {200, `{"error":{"message":"x","type":"insufficient_quota"}}`, quota},
		"inside: a key":                    {200, `{"error":{"message":"x","type":"authentication_error"}}`, credentials},
		"inside: a permission":             {200, `{"error":{"message":"x","type":"permission_error"}}`, forbidden},
		"inside: no model":                 {200, `{"error":{"message":"x","type":"not_found_error"}}`, noModel},
		"inside: a bad request":            {200, `{"error":{"message":"x","type":"invalid_request_error"}}`, badRequest},
		"inside: a long prompt":            {200, `{"error":{"message":"This model's maximum context length is 8"}}`, tooLong},
		"inside: a server error":           {200, `{"error":{"message":"x","type":"server_error"}}`, streamError},
		"inside: a text":                   {200, `{"error":"llama runner process has terminated"}`, streamError},
		"inside: a code that is no status": {200, `{"error":{"message":"x","code":7}}`, streamError},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := classify(tt.status, openai.ReadComplaint([]byte(tt.body))); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// FuzzClassify: every refusal has a class of the table and a reason, and a
// success never comes of one.
func FuzzClassify(f *testing.F) {
	f.Add(200, []byte(`{"error":{"code":200}}`))
	f.Add(429, []byte(`{"error":{"type":"insufficient_quota"}}`))
	f.Add(-1, []byte(``))
	known := map[llm.FailureClass]bool{}
	for _, class := range llm.Classes() {
		known[class] = true
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		class, reason := provider.Classify(status, openai.ReadComplaint(body))
		if !known[class] || class.Refusal() || class == llm.ClassCancelled || reason == "" {
			t.Fatalf("status %d, body %s is %q (%q)", status, body, class, reason)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	complaint := openai.ReadComplaint([]byte(`{"error":{"message":"Rate limit reached for requests","type":"requests","param":null,"code":"rate_limit_exceeded"}}`))
	b.ReportAllocs()
	for b.Loop() {
		provider.Classify(429, complaint)
	}
}
