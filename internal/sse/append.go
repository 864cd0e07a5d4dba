package sse

import "bytes"

// AppendData appends an event with the given payload and its closing blank
// line to dst. A newline inside the payload starts a further data line.
func AppendData(dst, data []byte) []byte {
	for {
		line, rest, more := bytes.Cut(data, []byte("\n"))
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}
