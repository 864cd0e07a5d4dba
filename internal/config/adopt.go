package config

import "reflect"

// Adopt returns what a running process can take over of next. Keys that only a
// restart can bring into effect keep the values of c, and their paths are
// returned where next has other ones. They are marked `change:"restart"` where
// they are declared; keys that one rule ties together are marked alike, so what
// comes back is valid when c and next are. Neither is changed.
func (c *Config) Adopt(next *Config) (adopted *Config, waiting []string) {
	mixed := *next
	waiting = keep("", reflect.ValueOf(c).Elem(), reflect.ValueOf(&mixed).Elem(), false)
	return &mixed, waiting
}

// keep gives the keys of a section that need a restart their running values.
func keep(at path, running, section reflect.Value, restart bool) (waiting []string) {
	for _, f := range fieldsOf(section.Type()) {
		was, is, p := f.of(running), f.of(section), at.key(f.name)
		switch bound := restart || f.restart; {
		case is.Kind() == reflect.Struct && !isLeaf(is.Type()):
			waiting = append(waiting, keep(p, was, is, bound)...)
		case bound && !reflect.DeepEqual(was.Interface(), is.Interface()):
			is.Set(was)
			waiting = append(waiting, string(p))
		}
	}
	return waiting
}

// Equal reports whether two configurations say the same, references resolved.
func (c *Config) Equal(other *Config) bool { return reflect.DeepEqual(c, other) }
