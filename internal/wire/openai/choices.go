package openai

import "math/bits"

// mostChoices is how many choices an answer may have in this dialect.
const mostChoices = 128

// Choices is a set of the choices of an answer, by their index.
type Choices [mostChoices / 64]uint64

// Add puts a choice into the set. One that no answer may have is taken for the
// last.
func (c *Choices) Add(index int) {
	index = min(max(index, 0), mostChoices-1)
	c[index/64] |= 1 << (index % 64)
}

// AddAll puts all of another set into the set.
func (c *Choices) AddAll(other Choices) {
	for i := range c {
		c[i] |= other[i]
	}
}

// None reports whether the set is empty.
func (c Choices) None() bool { return c == Choices{} }

// Len returns how many choices there are.
func (c Choices) Len() int {
	n := 0
	for _, word := range c {
		n += bits.OnesCount64(word)
	}
	return n
}

// All reports whether every choice of another set is in the set.
func (c Choices) All(other Choices) bool {
	for i := range c {
		if other[i]&^c[i] != 0 {
			return false
		}
	}
	return true
}
