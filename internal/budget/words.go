package budget

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// reader reads words that single spaces part.
type reader struct {
	rest   string
	over   bool // the last word was read
	broken bool
}

func (r *reader) word() string {
	if r.over {
		r.broken = true
		return ""
	}
	word, rest, more := strings.Cut(r.rest, " ")
	r.rest, r.over = rest, !more
	if word == "" {
		r.broken = true
	}
	return word
}

// number reads up to 16 digits that are not over top.
func (r *reader) number() int64 {
	word := r.word()
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil || len(word) > 16 || n > top {
		r.broken = true
		return 0
	}
	return int64(n)
}

func (r *reader) sums() sums {
	return sums{requests: r.number(), tokens: r.number(), nano: r.number()}
}

func (r *reader) done() bool { return r.over && !r.broken }

func join(words ...string) string { return strings.Join(words, " ") }

func number(n int64) string { return strconv.FormatInt(n, 10) }

func bit(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// runName is how scopes know a run.
func runName(run uuid.UUID) string {
	b := make([]byte, 0, len(prefixRun)+36)
	b = append(b, prefixRun...)
	for i, end := range [5]int{4, 6, 8, 10, 16} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, run[[5]int{0, 4, 6, 8, 10}[i]:end])
	}
	return string(b)
}

// runOf is the run of a name, whether or not names of its were given up before.
func runOf(name string) (uuid.UUID, bool) {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, prefixRun), "~")
	run, err := uuid.Parse(name)
	return run, err == nil
}
