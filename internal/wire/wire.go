// Package wire holds what the dialects below it have in common: the words in
// which they report an error. Each dialect is a room of its own that turns
// bytes into these words and into those of llm, and back. They do no I/O, know
// no provider by name, and do not know each other.
package wire

import "time"

// Complaint is what an error body says, whatever shape it came in. Its texts
// are an upstream's own and untrusted: they may hold our key.
type Complaint struct {
	Type    string
	Code    string // a number is given as its digits
	Param   string
	Message string

	// Status is the HTTP status that the body itself names, else 0. Inside a
	// 200 it is the only one there is.
	Status int
	// RetryAfter is a wait the body asks for, else 0.
	RetryAfter time.Duration
	// Hints are further machine-readable reasons beside type and code.
	Hints []string

	// Native reports that the body is an error of the dialect itself, so that a
	// client of the dialect can read it as it is.
	Native bool
	// Markup reports a page meant for a browser, as an edge or a proxy sends.
	Markup bool
}

// Says reports whether the type, the code or a hint is one of the words.
func (c Complaint) Says(words ...string) bool {
	for _, w := range words {
		if c.Type == w || c.Code == w {
			return true
		}
		for _, h := range c.Hints {
			if h == w {
				return true
			}
		}
	}
	return false
}
