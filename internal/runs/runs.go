// Package runs reads the telemetry tables for the operator API and the UI: the
// list of calls, one call with its attempts, the history of a circuit. It only
// reads; telemetry writes. It must not know HTTP.
package runs

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
)

// ErrNotFound says that no such run or event is recorded, or not any more.
var ErrNotFound = errors.New("not recorded")

// Run is one client call: a row of telemetry_runs. Nil means "not measured".
type Run struct {
	RunID            uuid.UUID        `json:"run_id"`
	StartedAt        time.Time        `json:"started_at"`
	FinishedAt       time.Time        `json:"finished_at"`
	CorrelationID    string           `json:"correlation_id"`
	TraceID          *string          `json:"trace_id"`
	APIKeyID         *string          `json:"api_key_id"`
	Operation        string           `json:"operation"`
	Dialect          string           `json:"dialect"`
	Configuration    *string          `json:"configuration"` // nil for a direct target
	RequestedModel   string           `json:"requested_model"`
	ServedProvider   *string          `json:"served_provider"`
	ServedModel      *string          `json:"served_model"`
	ServedRegion     *string          `json:"served_region"`
	Outcome          string           `json:"outcome"`
	FailureClass     *string          `json:"failure_class"`
	FailureReason    *string          `json:"failure_reason"`
	HTTPStatus       int32            `json:"http_status"`
	LatencyMs        int64            `json:"latency_ms"`
	OverheadUs       *int64           `json:"overhead_us"`
	TTFTMs           *int64           `json:"ttft_ms"`
	Streamed         bool             `json:"streamed"`
	CacheHit         bool             `json:"cache_hit"`
	IdempotentReplay bool             `json:"idempotent_replay"`
	Degraded         *string          `json:"degraded"`
	Attempts         int32            `json:"attempts"`  // those that reached an upstream
	Fallbacks        int32            `json:"fallbacks"` // targets that were moved past
	InputTokens      *int64           `json:"input_tokens"`
	CachedTokens     *int64           `json:"cached_tokens"`
	CacheWriteTokens *int64           `json:"cache_write_tokens"`
	OutputTokens     *int64           `json:"output_tokens"`
	ReasoningTokens  *int64           `json:"reasoning_tokens"`
	UsageEstimated   bool             `json:"usage_estimated"`
	UsageAnomaly     bool             `json:"usage_anomaly"`
	CostUSD          *decimal.Decimal `json:"cost_usd"`
	Unpriced         bool             `json:"unpriced"`
}

// Attempt is one permit or refusal of a run: a row of telemetry_attempts.
type Attempt struct {
	RunID             uuid.UUID        `json:"run_id"`
	Seq               int32            `json:"seq"` // from 1
	StartedAt         time.Time        `json:"started_at"`
	FinishedAt        time.Time        `json:"finished_at"`
	Provider          string           `json:"provider"`
	Model             string           `json:"model"`
	Region            string           `json:"region"`
	Outcome           string           `json:"outcome"`
	FailureClass      *string          `json:"failure_class"`
	FailureReason     *string          `json:"failure_reason"`
	UpstreamStatus    *int32           `json:"upstream_status"`
	LatencyMs         *int64           `json:"latency_ms"`
	TTFTMs            *int64           `json:"ttft_ms"`
	Slow              bool             `json:"slow"`
	Retries           int32            `json:"retries"`
	CircuitState      *string          `json:"circuit_state"`
	CircuitGeneration *int64           `json:"circuit_generation"`
	Probe             *string          `json:"probe"`
	InputTokens       *int64           `json:"input_tokens"`
	CachedTokens      *int64           `json:"cached_tokens"`
	CacheWriteTokens  *int64           `json:"cache_write_tokens"`
	OutputTokens      *int64           `json:"output_tokens"`
	ReasoningTokens   *int64           `json:"reasoning_tokens"`
	UsageEstimated    bool             `json:"usage_estimated"`
	UsageAnomaly      bool             `json:"usage_anomaly"`
	CostUSD           *decimal.Decimal `json:"cost_usd"`
	Unpriced          bool             `json:"unpriced"`
}

// Event is one transition of a circuit or one action of an operator: a row of
// circuit_events.
type Event struct {
	Node      string          `json:"node"`
	BootID    uuid.UUID       `json:"boot_id"`
	Seq       int64           `json:"seq"`
	At        time.Time       `json:"at"`
	Provider  string          `json:"provider"`
	Model     string          `json:"model"`
	Region    string          `json:"region"`
	FromState string          `json:"from_state"`
	ToState   string          `json:"to_state"`
	Reason    string          `json:"reason"`
	Counts    json.RawMessage `json:"counts"`
	OpenForMs *int64          `json:"open_for_ms"`
	Actor     string          `json:"actor"`
	Note      *string         `json:"note"` // why, in an operator's words
}

// MarshalJSON writes the cost as a number with all its digits, where a decimal
// would be a string.
func (r Run) MarshalJSON() ([]byte, error) {
	type columns Run
	return json.Marshal(struct {
		columns
		CostUSD *json.Number `json:"cost_usd"`
	}{columns(r), number(r.CostUSD)})
}

// MarshalJSON writes the cost as a number with all its digits, where a decimal
// would be a string.
func (a Attempt) MarshalJSON() ([]byte, error) {
	type columns Attempt
	return json.Marshal(struct {
		columns
		CostUSD *json.Number `json:"cost_usd"`
	}{columns(a), number(a.CostUSD)})
}

func number(d *decimal.Decimal) *json.Number {
	if d == nil {
		return nil
	}
	n := json.Number(d.String())
	return &n
}
