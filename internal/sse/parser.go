package sse

import "bytes"

// span is where an event lies in the buffer.
type span struct {
	start, end int // the raw event; end is set once its blank line is found
	name, data struct{ start, end int }
	found      bool // there is a data line
	several    bool // there is more than one
}

// empty reports whether the event carries no payload and is not dispatched.
func (s span) empty() bool {
	return !s.found || !s.several && s.data.start == s.data.end
}

// parser is how far the event in hand has been looked at.
type parser struct {
	span
	line    int  // where the current line starts
	seen    int  // no line end lies between line and seen
	skipLF  bool // a lone CR ended the last line: a LF right after it belongs to it
	crlf    bool // the last line ended in CRLF
	hasLine bool // the event has a line that is not a comment
}

func (p *parser) reset(at int) {
	*p = parser{span: span{start: at}, line: at, seen: at, skipLF: p.skipLF, crlf: p.crlf}
}

func (p *parser) shift(by int) {
	p.start -= by
	p.line -= by
	p.seen -= by
	if p.name.end > 0 {
		p.name.start -= by
		p.name.end -= by
	}
	p.data.start -= by
	p.data.end -= by
}

// parse looks for the end of the event in hand among the bytes read so far.
func (r *Reader) parse() (span, bool) {
	p := &r.cur
	for r.nextLine(p) {
		if !p.span.ended() {
			continue
		}
		s := p.span
		r.parsed = p.line
		p.reset(p.line)
		if !s.empty() {
			return s, true
		}
	}
	return span{}, false
}

func (s span) ended() bool { return s.end > 0 }

// nextLine takes one line into the event in hand and reports false when no
// whole line has been read.
func (r *Reader) nextLine(p *parser) bool {
	if p.skipLF && p.line < len(r.buf) {
		p.skipLF = false
		if r.buf[p.line] == '\n' {
			p.skip(1)
			p.crlf = true
		}
	}
	end, next, ok := lineEnd(r.buf[p.seen:], r.err != nil || !p.crlf)
	if !ok {
		p.seen += end
		return false
	}
	end, next = p.seen+end, p.seen+next
	p.skipLF = next == len(r.buf) && r.buf[next-1] == '\r'
	p.crlf = next-end == 2
	p.take(r.buf, end, next)
	p.line, p.seen = next, next
	return true
}

// skip leaves out bytes at the start of a line. Before the first line of an
// event they belong to no event at all.
func (p *parser) skip(n int) {
	if !p.hasLine {
		p.start += n
	}
	p.line += n
	p.seen = max(p.seen, p.line)
}

// take files the line between p.line and end.
func (p *parser) take(buf []byte, end, next int) {
	line := buf[p.line:end]
	switch {
	case len(line) == 0:
		p.end = next
		return
	case line[0] == ':' && !p.hasLine:
		p.start = next
		return
	}
	p.hasLine = true
	if value, ok := fieldValue(line, dataField); ok {
		p.several = p.found
		p.found = true
		p.data.start, p.data.end = end-len(value), end
	} else if value, ok := fieldValue(line, eventField); ok {
		p.name.start, p.name.end = end-len(value), end
	}
}

// finish ends the event in hand at the end of the stream. It reports false
// when the last line is not whole.
func (p *parser) finish(buf []byte) (span, bool) {
	return p.span, p.line >= len(buf)
}

// lineEnd finds the end of the first line and the start of the next. Without
// one it reports how many bytes need not be looked at again. A CR that is the
// last byte may be half of a CRLF: only when lone is set it ends a line.
func lineEnd(b []byte, lone bool) (end, next int, ok bool) {
	lf := bytes.IndexByte(b, '\n')
	head := b
	if lf >= 0 {
		head = b[:lf]
	}
	cr := bytes.IndexByte(head, '\r')
	switch {
	case cr >= 0 && cr+1 == lf:
		return cr, lf + 1, true
	case cr >= 0 && (cr+1 < len(b) || lone):
		return cr, cr + 1, true
	case cr >= 0:
		return cr, 0, false
	case lf >= 0:
		return lf, lf + 1, true
	default:
		return len(b), 0, false
	}
}

var (
	dataField  = []byte("data")
	eventField = []byte("event")
)

// fieldValue returns the value of a line of that field: what follows the colon,
// less one space. Other lines report false.
func fieldValue(line, field []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, field)
	if !ok {
		return nil, false
	}
	if len(rest) == 0 {
		return rest, true
	}
	if rest[0] != ':' {
		return nil, false
	}
	rest = rest[1:]
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	return rest, true
}
