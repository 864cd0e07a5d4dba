package openai

import (
	"bytes"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
)

// member is one member of an object, its value as it stands in the text.
type member struct {
	name  string
	value []byte
}

// object is a JSON object that is taken apart and put together again: its
// members, in their order.
type object []member

// readObject takes an object apart. It reports false for anything else, and for
// a text that parsers do not all read alike.
func readObject(text []byte) (object, bool) {
	s := jsonscan.Strict(text)
	if s.Kind() != jsonscan.Object {
		return nil, false
	}
	var o object
	for s.Object(); s.Member(); {
		name := string(s.Name)
		o = append(o, member{name, s.Value()})
	}
	return o, s.End() == nil
}

// readArray takes an array apart. It reports false for anything else.
func readArray(text []byte) (elements [][]byte, ok bool) {
	s := jsonscan.Strict(text)
	if s.Kind() != jsonscan.Array {
		return nil, false
	}
	for s.Array(); s.Element(); {
		elements = append(elements, s.Value())
	}
	return elements, s.End() == nil
}

// get returns a value; nil when the object has no such member, or it is null.
func (o object) get(name string) []byte {
	for _, m := range o {
		if m.name == name && !isNull(m.value) {
			return m.value
		}
	}
	return nil
}

// set gives a member another value, or the object another member.
func (o *object) set(name string, value []byte) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{name, value})
}

// without returns the object less some members.
func (o object) without(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return slices.Contains(names, m.name) })
}

// append appends the object to dst.
func (o object) append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendText(dst, m.name), ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}')
}

func (o object) bytes() []byte { return o.append(nil) }

// appendArray appends an array of values to dst.
func appendArray(dst []byte, elements [][]byte) []byte {
	dst = append(dst, '[')
	dst = append(dst, bytes.Join(elements, []byte(","))...)
	return append(dst, ']')
}

// isNull reports a value that says nothing.
func isNull(value []byte) bool { return string(value) == "null" }

// isString reports a text, also one without a character.
func isString(value []byte) bool { return len(value) > 0 && value[0] == '"' }

// isEmptyText reports a text without a character.
func isEmptyText(value []byte) bool { return string(value) == `""` }
