package budget

import (
	"math"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// rates are a price made ready for sums: what one token costs in each bucket, by
// tier, and what one of everything else costs, in USD.
type rates struct {
	tiers []tier // the first is above -1, so a call is always in one
	dear  dearest

	image, millisecond, character, request decimal.Decimal
}

type tier struct {
	above                            int64
	input, cached, cacheWrite, audio decimal.Decimal
	output, reasoning, audioOutput   decimal.Decimal
}

// dearest is the most that a token costs, whatever tier and bucket it falls in.
type dearest struct{ input, output decimal.Decimal }

func ratesOf(p Price) rates {
	r := rates{
		tiers:       []tier{tierOf(-1, p.TokenPrice)},
		image:       p.PerImage,
		millisecond: p.PerSecond.Shift(-3),
		character:   p.PerCharacter,
		request:     p.PerRequest,
	}
	for _, t := range p.Tiers {
		r.tiers = append(r.tiers, tierOf(t.Above, t.TokenPrice))
	}
	for _, t := range r.tiers {
		r.dear.input = decimal.Max(r.dear.input, t.input, t.cached, t.cacheWrite, t.audio)
		r.dear.output = decimal.Max(r.dear.output, t.output, t.reasoning, t.audioOutput)
	}
	return r
}

func tierOf(above int64, p TokenPrice) tier {
	return tier{
		above:       above,
		input:       perToken(p.Input),
		cached:      perToken(or(p.CachedInput, p.Input)),
		cacheWrite:  perToken(or(p.CacheWrite, p.Input)),
		audio:       perToken(or(p.AudioInput, p.Input)),
		output:      perToken(p.Output),
		reasoning:   perToken(or(p.Reasoning, p.Output)),
		audioOutput: perToken(or(p.AudioOutput, p.Output)),
	}
}

func perToken(perMillion decimal.Decimal) decimal.Decimal { return perMillion.Shift(-6) }

func or(price *decimal.Decimal, otherwise decimal.Decimal) decimal.Decimal {
	if price != nil {
		return *price
	}
	return otherwise
}

// tier returns what governs a call with so many tokens of input: a call at a
// bound is not over it.
func (r rates) tier(input int64) tier {
	for i := len(r.tiers) - 1; i > 0; i-- {
		if input > r.tiers[i].above {
			return r.tiers[i]
		}
	}
	return r.tiers[0]
}

// buckets are the counts of a usage so divided that each token is in one. No
// report makes one of them negative, and no sum of them overflows.
type buckets struct {
	input, cached, cacheWrite, audio        int64 // together the input
	output, reasoning, audioOutput          int64 // together the output
	images, milliseconds, characters, total int64 // total is the input, or its parts where they are more
}

func bucketsOf(u llm.Usage) buckets {
	b := buckets{
		cached:       atLeastZero(u.Cached.N),
		cacheWrite:   atLeastZero(u.CacheWrite.N),
		images:       atLeastZero(u.Images.N),
		milliseconds: atLeastZero(u.Milliseconds.N),
		characters:   atLeastZero(u.Characters.N),
	}
	fresh := atLeastZero(atLeastZero(atLeastZero(u.Input.N)-b.cached) - b.cacheWrite)
	b.audio = min(atLeastZero(u.AudioInput.N), fresh)
	b.input = fresh - b.audio
	b.total = plus(plus(b.cached, b.cacheWrite), fresh)

	output := atLeastZero(u.Output.N)
	b.reasoning = min(atLeastZero(u.Reasoning.N), output)
	b.audioOutput = min(atLeastZero(u.AudioOutput.N), output-b.reasoning)
	b.output = output - b.reasoning - b.audioOutput
	return b
}

func atLeastZero(n int64) int64 { return max(n, 0) }

// plus adds two counts that are not negative; what is too much is the most.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
