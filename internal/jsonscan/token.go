package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted takes the string that comes next. It returns it with its quotes, and
// how many bytes its escapes are longer than what they stand for.
func (s *Scanner) quoted() (raw []byte, escapes int) {
	if s.peek() != '"' {
		s.unexpected()
		return nil, 0
	}
	start := s.at
	for s.at++; ; {
		s.at += plain(s.data[s.at:])
		if s.at == len(s.data) {
			break
		}
		if s.data[s.at] == '"' {
			s.at++
			return s.checked(s.data[start:s.at]), escapes
		}
		if s.data[s.at] != '\\' {
			break
		}
		width, text := escape(s.data[s.at:])
		if width == 0 {
			s.refuse("invalid escape", s.at)
			return nil, 0
		}
		s.at += width
		escapes += width - text
	}
	s.unexpected()
	return nil, 0
}

// plain returns how many bytes at the start of b stand for themselves in a
// string. It looks at eight at a time, for most of a text is in its strings.
func plain(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if marks := marked(binary.LittleEndian.Uint64(b[i:])); marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// marked sets the top bit of each of eight bytes that is a quote, a backslash
// or a control character. A byte above the lowest of them may be marked, too,
// by what it lent that one.
func marked(word uint64) uint64 {
	const each, top = 0x0101010101010101, 0x8080808080808080
	quote := word ^ each*'"' // zero where the byte is one
	slash := word ^ each*'\\'
	return ((word-each*' ')&^word | (quote-each)&^quote | (slash-each)&^slash) & top
}

func (s *Scanner) checked(raw []byte) []byte {
	if s.rules == nil || utf8.Valid(raw) {
		return raw
	}
	s.refuse("invalid UTF-8", s.at-len(raw))
	return nil
}

// escape returns the width of the escape sequence at the start of b, and how
// many bytes of text it stands for: half of a surrogate pair for two, which is
// half of its character. An invalid one has no width.
func escape(b []byte) (width, text int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, 1
	}
	unit, ok := codeUnit(b)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(unit):
		return 6, utf8.RuneLen(unit)
	default:
		return 6, 2
	}
}

// codeUnit returns the UTF-16 code unit of the escape sequence \uXXXX at the
// start of b.
func codeUnit(b []byte) (unit rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}

// number takes the number that comes next.
func (s *Scanner) number() {
	start := s.at
	s.take('-')
	if !s.take('0') && !s.digits() {
		return
	}
	if s.take('.') && !s.digits() {
		return
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return
		}
	}
	if s.rules != nil && tooLarge(s.data[start:s.at]) {
		s.refuse("a number too large", start)
	}
}

// take takes the next byte if it is c.
func (s *Scanner) take(c byte) bool {
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// digits takes one or more digits; none is a fault.
func (s *Scanner) digits() bool {
	start := s.at
	for s.at < len(s.data) && s.data[s.at]-'0' <= 9 {
		s.at++
	}
	if s.at == start {
		s.unexpected()
	}
	return s.err == nil
}

// literal takes the word that comes next.
func (s *Scanner) literal() {
	for _, word := range [...]string{"null", "true", "false"} {
		if bytes.HasPrefix(s.data[s.at:], []byte(word)) {
			s.at += len(word)
			return
		}
	}
	s.unexpected()
}
