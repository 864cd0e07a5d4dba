package breaker

// word is all that the fast path needs to know of a circuit, in one atomic: the
// generation above, the state and flags below.
type word uint64

const (
	stateBits = 0b0111
	// off: the settings say that the circuit is not enabled, and no person has
	// said otherwise.
	off word = 1 << 3
	// evicted: the registry has let go of the circuit; outcomes belong to the
	// one that takes its place.
	evicted word = 1 << 4
	// watched: the settings judge calls by how long they take, so that their
	// permits want to know.
	watched word = 1 << 5
	// shared: other replicas know of the circuit, too.
	shared word = 1 << 6
	// strict: nothing is done without asking them.
	strict word = 1 << 7

	// sparing: calls are let through by chance.
	sparing word = 1 << 8
	// rolled: the group of the circuit is open.
	rolled word = 1 << 9

	generationShift = 10
)

func newWord(generation uint64, s State) word { return word(generation<<generationShift) | word(s) }

func (w word) state() State       { return State(w & stateBits) }
func (w word) generation() uint64 { return uint64(w >> generationShift) }

// admitting are the states that let every call go.
const admitting = 1<<Closed | 1<<Disabled | 1<<Shadow

// admits reports whether a call may go without a closer look (R1).
func (w word) admits() bool {
	return w&(off|strict|sparing|rolled) == 0 && admitting>>(w&stateBits)&1 == 1
}

// passes is admits for whoever has asked the others, and chance.
func (w word) passes() bool { return (w &^ (strict | sparing)).admits() }

// granted is the word as a permit keeps it: what it is about, not how it is
// doing.
func (w word) granted() word { return w &^ evicted }

// refuses reports whether the circuit is open, whoever wanted it.
func (w word) refuses() bool { return w.state() == Open || w.state() == ForcedOpen }
