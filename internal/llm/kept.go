package llm

import (
	"time"

	"github.com/google/uuid"
)

// Kept is a whole answer that the response cache holds, for whoever asks the same.
type Kept struct {
	Body   []byte // belongs to whoever has it, and is not changed
	Target Target // who gave it
	Run    uuid.UUID
	Usage  Usage     // what it cost then
	At     time.Time // when it was given
	Asked  time.Time // when it was asked for, of one that is to be kept
}

// KeptKey is what an answer is kept under.
type KeptKey struct {
	Configuration string   // empty for direct targets; what is kept is forgotten by it
	Sum           [32]byte // of all that has to be the same
}
