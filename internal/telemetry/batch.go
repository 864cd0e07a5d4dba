package telemetry

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// batch is rows as the spool keeps them: deflated JSON, by the names of their
// fields. A field that is new is zero in older ones; one that is renamed or means
// something else needs a reader for the old.
type batch struct {
	Runs  []*llm.Run `json:",omitempty"`
	Usage []*llm.Run `json:",omitempty"` // of calls that leave no rows

	// Events are of the process that Node and BootID name.
	Events []*breaker.Event `json:",omitempty"`
	Node   string           `json:",omitempty"`
	BootID uuid.UUID        `json:",omitzero"`
}

func (b *batch) rows() int { return len(b.Runs) + len(b.Usage) + len(b.Events) }

// largestBatch bounds what a batch may inflate to.
const largestBatch = 256 << 20

func (b *batch) encode() ([]byte, error) {
	var out bytes.Buffer
	deflate, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("encode a batch: %w", err)
	}
	if err := json.NewEncoder(deflate).Encode(b); err != nil {
		return nil, fmt.Errorf("encode a batch: %w", err)
	}
	if err := deflate.Close(); err != nil {
		return nil, fmt.Errorf("encode a batch: %w", err)
	}
	return out.Bytes(), nil
}

func decodeBatch(record []byte) (*batch, error) {
	var b batch
	inflate := io.LimitReader(flate.NewReader(bytes.NewReader(record)), largestBatch)
	if err := json.NewDecoder(inflate).Decode(&b); err != nil {
		return nil, fmt.Errorf("decode a batch: %w", err)
	}
	isNil := func(run *llm.Run) bool { return run == nil }
	b.Runs, b.Usage = slices.DeleteFunc(b.Runs, isNil), slices.DeleteFunc(b.Usage, isNil)
	b.Events = slices.DeleteFunc(b.Events, func(e *breaker.Event) bool { return e == nil })
	return &b, nil
}

// forSpool copies runs as the spool keeps them: with the day they count for, and
// with what clients choose freely cut as it will be in the rows.
func (r *Recorder) forSpool(runs []*llm.Run) []*llm.Run {
	zone, all := r.cfg.Zone(), make([]*llm.Run, len(runs))
	for i, run := range runs {
		kept := *run
		kept.UsageDay = usageDay(run, zone)
		kept.CorrelationID, kept.TraceID = clean(run.CorrelationID, maxID), clean(run.TraceID, maxID)
		kept.APIKeyID, kept.Configuration = clean(run.APIKeyID, maxName), clean(run.Configuration, maxName)
		kept.RequestedModel = clean(run.RequestedModel, maxName)
		all[i] = &kept
	}
	return all
}
