package config

import (
	"regexp"
	"strconv"
	"strings"
)

// path says where a value is: keys joined by dots, elements by their index. A
// key that would make it ambiguous is quoted. The empty path is the whole file.
type path string

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// key returns the path of a key of p.
func (p path) key(name string) path {
	if !plainKey.MatchString(name) {
		name = strconv.Quote(name)
	}
	if p == "" {
		return path(name)
	}
	return p + "." + path(name)
}

// index returns the path of an element of p.
func (p path) index(i int) path { return p + path("["+strconv.Itoa(i)+"]") }

// within reports whether p is outer or in it.
func (p path) within(outer path) bool {
	rest, ok := strings.CutPrefix(string(p), string(outer))
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}
