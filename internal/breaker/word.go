package breaker

// word is all that the fast path needs to know of a circuit, in one atomic: the
// generation above, the state and flags below.
type word uint64

const (
	stateBits = 0b0011
	// off: the settings say that the circuit is not enabled.
	off word = 1 << 2
	// evicted: the registry has let go of the circuit; outcomes belong to the
	// one that takes its place.
	evicted word = 1 << 3
	// watched: the settings judge calls by how long they take, so that their
	// permits want to know.
	watched word = 1 << 4

	generationShift = 8
)

func newWord(generation uint64, s State) word { return word(generation<<generationShift) | word(s) }

func (w word) state() State       { return State(w & stateBits) }
func (w word) generation() uint64 { return uint64(w >> generationShift) }

// admits reports whether a call may go without a closer look.
func (w word) admits() bool { return w&(stateBits|off) == word(Closed) }

// granted is the word as a permit keeps it: what it is about, not how it is
// doing.
func (w word) granted() word { return w &^ evicted }
