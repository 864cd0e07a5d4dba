package responses

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// pieceSize is how much of an answer goes into one value: a large one must not
// take longer than the cache gives a call.
const pieceSize = 256 << 10

// entry is an answer as the cache holds it: a line about it, then its body, or
// the beginning of one that goes on in pieces.
type entry struct {
	Target llm.Target `json:"target"`
	Run    uuid.UUID  `json:"run"`
	Usage  llm.Usage  `json:"usage"`
	At     time.Time  `json:"at"`
	Size   int        `json:"size"`
	Pieces int        `json:"pieces,omitempty"` // after the first
	Write  string     `json:"write,omitempty"`  // tells its pieces from those of another text

	first []byte
}

func newEntry(k llm.Kept) (e entry, pieces [][]byte) {
	e = entry{Target: k.Target, Run: k.Run, Usage: k.Usage, At: k.At.UTC(), Size: len(k.Body), first: k.Body}
	if len(k.Body) <= pieceSize {
		return e, nil
	}
	e.first = k.Body[:pieceSize]
	for rest := k.Body[pieceSize:]; len(rest) > 0; {
		n := min(len(rest), pieceSize)
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	e.Pieces, e.Write = len(pieces), uuid.NewString()
	return e, pieces
}

func (e entry) text() []byte {
	line, _ := json.Marshal(e) // of plain fields, which cannot fail
	return append(append(line, '\n'), e.first...)
}

// readEntry reports false for a text that is none, such as one of another
// version.
func readEntry(text []byte) (e entry, ok bool) {
	line, first, ok := bytes.Cut(text, []byte("\n"))
	if !ok || json.Unmarshal(line, &e) != nil {
		return entry{}, false
	}
	e.first = first
	return e, true
}

func (e entry) kept(body []byte) llm.Kept {
	return llm.Kept{Body: body, Target: e.Target, Run: e.Run, Usage: e.Usage, At: e.At}
}

// pieces names the pieces for whoever takes the entry away.
func (e entry) pieces() string {
	if e.Pieces == 0 {
		return ""
	}
	return e.Write + ":" + strconv.Itoa(e.Pieces)
}

// piecesOf names them again.
func piecesOf(key llm.KeptKey, text string) (keys []string) {
	write, count, _ := strings.Cut(text, ":")
	n, _ := strconv.Atoi(count)
	for i := range n {
		keys = append(keys, pieceKey(key, write, i))
	}
	return keys
}

// All keys of a configuration share a slot, so that one step can write an answer
// and the shelf that lists it.

func prefix(configuration string) string {
	if configuration == "" {
		return "breakwater:responses:{@direct}:"
	}
	return "breakwater:responses:{" + url.QueryEscape(configuration) + "}:"
}

func field(key llm.KeptKey) string { return hex.EncodeToString(key.Sum[:]) }

func entryKey(key llm.KeptKey) string { return prefix(key.Configuration) + field(key) }

func pieceKey(key llm.KeptKey, write string, i int) string {
	return entryKey(key) + ":" + write + ":" + strconv.Itoa(i)
}

// markKey is where it stands when the answers of a configuration were cleared.
func markKey(configuration string) string { return prefix(configuration) + "cleared" }

// keyOf reads a field back.
func keyOf(configuration, field string) (key llm.KeptKey, ok bool) {
	sum, err := hex.DecodeString(field)
	if err != nil || len(sum) != len(key.Sum) {
		return key, false
	}
	key.Configuration = configuration
	copy(key.Sum[:], sum)
	return key, true
}
