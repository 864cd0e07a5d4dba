package openai

import "bytes"

// maxDepth bounds the nesting of a request. Parsers behind us fail on far less
// than a body can hold, and their failure would look like a sick provider.
const maxDepth = 128

// tooDeep reports whether the body nests deeper than maxDepth. Counting
// brackets settles it for most bodies without looking at a single string.
func tooDeep(body []byte) bool {
	if bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) <= maxDepth {
		return false
	}
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			i += stringWidth(body[i:]) - 1
		}
		if depth > maxDepth {
			return true
		}
	}
	return false
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
