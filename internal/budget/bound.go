package budget

import (
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// undeclared is how many tokens one image, sound or file is taken for at a model
// that says neither what it takes for one nor how much it can take in all.
const undeclared = 128 << 10

// Capacity is how much a model takes and gives at most, in tokens; 0 = it does not
// say.
type Capacity struct {
	ContextWindow int // prompt and answer together
	MaxOutput     int // its longest answer
	Media         int // one image or sound
}

// Ceiling says what a usage costs at most.
type Ceiling interface {
	// Bound is in USD, for counts up to those of the usage; priced is false when the
	// target has no price.
	Bound(target llm.Target, usage llm.Usage) (most decimal.Decimal, priced bool)
}

// Bounds says what a call can use at most, before anybody is asked. It does not
// change once it is made.
type Bounds struct {
	models        map[llm.Target]Capacity
	ceiling       Ceiling
	defaultOutput int
}

// NewBounds returns the bounds for models; defaultOutput is how many tokens an
// answer may have where neither the caller nor the model says.
func NewBounds(models map[llm.Target]Capacity, ceiling Ceiling, defaultOutput int) *Bounds {
	return &Bounds{models: models, ceiling: ceiling, defaultOutput: defaultOutput}
}

// Of returns the bound of one attempt to serve a call on a target: the whole of
// what is sent, with all of the longest answer that the target is left to give.
func (b *Bounds) Of(target llm.Target, call *llm.Call) llm.Bound {
	model := b.models[target]
	limit := b.answer(model, call.Facts)
	bound := llm.Bound{
		Input:       model.prompt(call),
		Output:      times(limit, max(call.Facts.Choices, 1)),
		OutputLimit: limit,
	}
	bound.Cost, bound.Priced = b.ceiling.Bound(target, llm.Usage{
		Input: llm.Tokens(bound.Input), Output: llm.Tokens(bound.Output),
	})
	return bound
}

// answer is the length of one answer: what the caller said, else what the model
// or the gateway allows; never more than its window holds.
func (b *Bounds) answer(model Capacity, facts llm.Facts) int {
	limit := facts.MostOutput
	if limit == 0 {
		limit = model.MaxOutput
	}
	if limit == 0 {
		limit = b.defaultOutput
	}
	if model.ContextWindow > 0 {
		limit = min(limit, model.ContextWindow)
	}
	return limit
}

// prompt is the length of the prompt. A token has at least one byte, so that text
// has no more of them than bytes, its JSON included. How many an image or a sound
// has is the model's to say, and what is in a file nobody knows.
func (c Capacity) prompt(call *llm.Call) int64 {
	facts := call.Facts
	text := int64(max(len(call.Body)-facts.MediaBytes, 0) + len(call.Insert.Text))
	all := llm.PlusTokens(text, llm.PlusTokens(times(c.medium(), facts.Media), times(c.file(), facts.Files)))
	if c.ContextWindow > 0 {
		return min(all, int64(c.ContextWindow))
	}
	return all
}

func (c Capacity) medium() int {
	if c.Media > 0 {
		return c.Media
	}
	return c.file()
}

func (c Capacity) file() int {
	if c.ContextWindow > 0 {
		return c.ContextWindow
	}
	return undeclared
}

// times multiplies two counts of which none is negative. Both are far below 2^31,
// as what is read of requests and configurations is.
func times(a, b int) int64 { return int64(a) * int64(b) }
