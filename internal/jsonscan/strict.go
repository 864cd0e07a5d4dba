package jsonscan

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// What other parsers fail on, or read each in its own way.
const (
	// strictDepth is how deep a text may nest under Strict: more exhausts
	// the stacks of some parsers.
	strictDepth = 128
	// maxNumber is how long a number may be, in bytes; a finite double has no
	// more than 309 digits before its point.
	maxNumber = 400
)

// strict is what Strict holds a text to beyond its syntax.
type strict struct {
	names names
	room  struct { // enough for most requests, in one piece
		all     [16][]byte
		objects [8]object
	}
}

// Strict returns a Scanner that takes only what every parser reads alike, as is
// right for a request that is passed on: names that come once, strings in UTF-8,
// numbers that are finite doubles, and moderate nesting. Half of a surrogate pair
// may stand in a string, as it does where a program cut a text in two, but not in
// a name: parsers put different things in its place, so that two names may become
// one.
func Strict(data []byte) Scanner {
	rules := new(strict)
	rules.names.all, rules.names.objects = rules.room.all[:0], rules.room.objects[:0]
	return Scanner{data: data, rules: rules}
}

// sound reports whether the name in hand is one that every parser reads alike,
// and new in its object.
func (s *Scanner) sound(raw []byte, escapes, start int) bool {
	switch {
	case escapes > 0 && !isText(raw):
		s.refuse("half of a surrogate pair in a name", start)
	case !s.rules.names.add(s.Name):
		s.refuse("duplicate name", start)
	default:
		return true
	}
	return false
}

// isText reports whether a string in quotes, which may hold escapes, is text.
func isText(raw []byte) bool {
	_, err := jsontext.AppendUnquote(nil, raw)
	return err == nil
}

// tooLarge reports whether a number is no finite double, or absurdly long.
func tooLarge(number []byte) bool {
	number = bytes.TrimPrefix(number, []byte("-"))
	if len(number) > maxNumber {
		return true
	}
	if len(number) < 300 && bytes.IndexByte(number, 'e') < 0 && bytes.IndexByte(number, 'E') < 0 {
		return false
	}
	_, err := strconv.ParseFloat(string(number), 64)
	return err != nil
}

// fewNames is how many names of an object are compared one by one.
const fewNames = 16

// names are the names of all objects that are open, the innermost's last.
type names struct {
	all     [][]byte
	objects []object
}

type object struct {
	first int                 // of its names
	index map[string]struct{} // all of its names, once they are many
}

func (n *names) open() { n.objects = append(n.objects, object{first: len(n.all)}) }

func (n *names) close() {
	last := len(n.objects) - 1
	n.all = n.all[:n.objects[last].first]
	n.objects = n.objects[:last]
}

// add files a name under the innermost object and reports false if it has it.
func (n *names) add(name []byte) bool {
	o := &n.objects[len(n.objects)-1]
	if o.has(name, n.all) {
		return false
	}
	n.all = append(n.all, name)
	if o.index != nil {
		o.index[string(name)] = struct{}{}
	}
	return true
}

// has looks for a name, among many with an index: a hostile object would take
// the square of its size otherwise.
func (o *object) has(name []byte, all [][]byte) bool {
	mine := all[o.first:]
	if o.index == nil && len(mine) < fewNames {
		for _, other := range mine {
			if bytes.Equal(name, other) {
				return true
			}
		}
		return false
	}
	if o.index == nil {
		o.index = make(map[string]struct{}, 2*len(mine))
		for _, other := range mine {
			o.index[string(other)] = struct{}{}
		}
	}
	_, found := o.index[string(name)]
	return found
}
