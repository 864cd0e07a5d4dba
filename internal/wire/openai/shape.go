package openai

import (
	"bytes"
	"fmt"
	"strconv"
)

// What parsers behind us fail on, and their failure would look like a sick
// provider: nesting that exhausts a stack, and numbers that are no doubles or
// take longer to convert than to send.
const (
	maxDepth  = 128
	maxNumber = 400 // bytes; a finite double has no more than 309 digits before its point
)

// checkShape refuses a body that nests too deeply or holds a number that is too
// large. It looks at brackets and numbers only and skips every string as a
// whole; what is no JSON at all is for the decoder to find.
func checkShape(body []byte) error {
	depth := 0
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			i += stringWidth(body[i:]) - 1
		case c == '{', c == '[':
			if depth++; depth > maxDepth {
				return &RequestError{Code: CodeInvalidJSON, Message: fmt.Sprintf("The body is nested more than %d levels deep.", maxDepth)}
			}
		case c == '}', c == ']':
			depth--
		case c >= '0' && c <= '9':
			width := numberWidth(body[i:])
			if tooLarge(body[i : i+width]) {
				return &RequestError{Code: CodeInvalidJSON, Message: fmt.Sprintf("The number at byte %d is too large.", i)}
			}
			i += width - 1
		}
	}
	return nil
}

// numberWidth returns the length of the number at the start of b.
func numberWidth(b []byte) int {
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9', c == '.', c == 'e', c == 'E', c == '+', c == '-':
		default:
			return i
		}
	}
	return len(b)
}

// tooLarge reports whether a number is no finite double, or absurdly long.
func tooLarge(number []byte) bool {
	if len(number) > maxNumber {
		return true
	}
	if len(number) < 300 && bytes.IndexByte(number, 'e') < 0 && bytes.IndexByte(number, 'E') < 0 {
		return false
	}
	_, err := strconv.ParseFloat(string(number), 64)
	return err != nil
}

// stringWidth returns the length of the quoted string at the start of b, or
// all of b when it does not end.
func stringWidth(b []byte) int {
	for i := 1; ; {
		at := bytes.IndexByte(b[i:], '"')
		if at < 0 {
			return len(b)
		}
		i += at + 1
		if !escaped(b[:i-1]) {
			return i
		}
	}
}

// escaped reports whether what follows b is escaped by a backslash.
func escaped(b []byte) bool {
	return (len(b)-len(bytes.TrimRight(b, `\`)))%2 == 1
}
