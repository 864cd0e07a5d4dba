// Package jsonscan walks a JSON text that lies in memory as a whole, once and
// from front to back, without decoding it; a lenient walk allocates only to
// unescape a name. It is for what every call and every event of a stream pays
// for: whoever wants values in structs, or words about what is wrong, has
// jsontext. It knows JSON only and must not know what any of it means.
package jsonscan

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep a text may nest, as in jsontext.
const maxDepth = 10000

// Kind is what a value is, known from its first byte.
type Kind byte

// The kinds of values. Invalid stands for the end of the text, too.
const (
	Invalid Kind = 0
	Null    Kind = 'n'
	Bool    Kind = 't'
	Number  Kind = '0'
	String  Kind = '"'
	Object  Kind = '{'
	Array   Kind = '['
)

// A SyntaxError says why a text is refused.
type SyntaxError struct {
	Reason string
	Offset int // in bytes
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// Scanner stands before a value of a text. Each method that reads takes that
// value, and none reads past it. The first fault is kept: from then on nothing
// comes any more, every loop ends, and Err tells. So a walk needs to look at it
// once, at its end.
type Scanner struct {
	// Name is the name of the member that Member has come to, unescaped.
	Name []byte

	data  []byte
	at    int
	depth int
	fresh bool    // an object or an array has just been entered
	rules *strict // nil = none
	err   error
}

// Lenient returns a Scanner that takes what can be understood, as is right for
// an answer: names may come twice, and bytes that are no UTF-8 and halves of
// surrogate pairs may stand in strings.
func Lenient(data []byte) Scanner { return Scanner{data: data} }

// Kind returns the kind of the value that comes next.
func (s *Scanner) Kind() Kind {
	switch c := s.peek(); c {
	case '{', '[', '"', 'n', 't':
		return Kind(c)
	case 'f':
		return Bool
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	default:
		return Invalid
	}
}

// Object enters the object that comes next; Member then goes through it. Any
// other value is skipped, and false returned.
func (s *Scanner) Object() bool { return s.enter('{') }

// Array enters the array that comes next; Element then goes through it. Any
// other value is skipped, and false returned.
func (s *Scanner) Array() bool { return s.enter('[') }

// Member goes to the next member of the object in hand, whose name is then in
// Name and whose value comes next. Past the last one it leaves the object and
// returns false.
func (s *Scanner) Member() bool {
	if !s.next('}') {
		return false
	}
	start := s.at
	raw, escapes := s.quoted()
	if s.peek() != ':' {
		s.unexpected()
		return false
	}
	s.at++
	s.Name = unquote(raw, escapes)
	return s.rules == nil || s.sound(raw, escapes, start)
}

// Element goes to the next element of the array in hand, which then comes
// next. Past the last one it leaves the array and returns false.
func (s *Scanner) Element() bool { return s.next(']') }

// Skip takes the value that comes next, whatever it is.
func (s *Scanner) Skip() {
	switch s.Kind() {
	case Object:
		for s.Object(); s.Member(); {
			s.Skip()
		}
	case Array:
		for s.Array(); s.Element(); {
			s.Skip()
		}
	case String:
		s.quoted()
	case Number:
		s.number()
	default:
		s.literal()
	}
}

// Value takes the value that comes next and returns it as it stands in the
// text; after a fault it returns nothing.
func (s *Scanner) Value() []byte {
	s.peek()
	start := s.at
	s.Skip()
	if s.err != nil {
		return nil
	}
	return s.data[start:s.at]
}

// Text takes the string that comes next and returns its text, unescaped. It
// allocates only when there is something to unescape.
func (s *Scanner) Text() []byte { return unquote(s.quoted()) }

// TextLen takes the string that comes next and returns how many bytes of text
// it holds. Half of a surrogate pair counts two, which is half of its character.
func (s *Scanner) TextLen() int {
	raw, escapes := s.quoted()
	return max(len(raw)-2-escapes, 0)
}

// Offset returns how far the text has been read: behind the value that was
// taken last or, once Kind has looked, at the start of the next.
func (s *Scanner) Offset() int { return s.at }

// End returns the first fault, to which anything but white space behind the
// value that was taken last counts, too.
func (s *Scanner) End() error {
	if s.peek(); s.at < len(s.data) {
		s.unexpected()
	}
	return s.err
}

// Err returns the first fault: a *SyntaxError, or what Fail was given.
func (s *Scanner) Err() error { return s.err }

// Fail ends the walk with a fault of the caller's own.
func (s *Scanner) Fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.at = len(s.data)
}

func (s *Scanner) refuse(reason string, offset int) {
	if s.err == nil { // or the offset means nothing
		s.Fail(&SyntaxError{Reason: reason, Offset: offset})
	}
}

// unexpected is the fault that the next byte cannot stand where it does.
func (s *Scanner) unexpected() {
	if s.at >= len(s.data) {
		s.refuse("unexpected end", s.at)
		return
	}
	r, _ := utf8.DecodeRune(s.data[s.at:])
	s.refuse(fmt.Sprintf("unexpected %q", r), s.at)
}

// peek skips white space and returns the byte behind it, or 0 at the end.
func (s *Scanner) peek() byte {
	for ; s.at < len(s.data); s.at++ {
		if c := s.data[s.at]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

func (s *Scanner) enter(begin byte) bool {
	if s.peek() != begin {
		s.Skip()
		return false
	}
	s.depth++
	if deepest := s.deepest(); s.depth > deepest {
		s.refuse(fmt.Sprintf("more than %d levels of nesting", deepest), s.at)
		return false
	}
	if s.rules != nil && begin == '{' {
		s.rules.names.open()
	}
	s.at++
	s.fresh = true
	return true
}

func (s *Scanner) deepest() int {
	if s.rules != nil {
		return strictDepth
	}
	return maxDepth
}

// next goes to the next part of the object or array in hand, over a comma
// unless it is the first, or out of it.
func (s *Scanner) next(end byte) bool {
	fresh := s.fresh
	s.fresh = false
	switch c := s.peek(); {
	case c == end:
		s.at++
		s.depth--
		if s.rules != nil && end == '}' {
			s.rules.names.close()
		}
		return false
	case s.at == len(s.data):
	case fresh:
		return true
	case c == ',':
		s.at++
		return true
	}
	s.unexpected()
	return false
}

// unquote returns the text of a string, without a copy when it has no escapes.
func unquote(raw []byte, escapes int) []byte {
	switch {
	case len(raw) == 0:
		return nil
	case escapes == 0:
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw) // what is no text becomes U+FFFD
	return text
}
