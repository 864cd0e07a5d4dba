package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File         string
	Line, Column int    // from 1; 0 when the configuration was made in code
	Path         string // such as providers.alpha.base_url; empty for the whole file
	Value        string // as it is written, where it is shown; empty otherwise
	Problem      string // what is wrong
	Remedy       string // what to do
}

// String is one line: `file:line:column: path: what is wrong; what to do`.
func (f Fault) String() string {
	if f.Value != "" {
		f.Problem = f.Value + " " + f.Problem
	}
	return f.WithoutValue()
}

// WithoutValue is the same line without the value, for those who may not have
// the file.
func (f Fault) WithoutValue() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File + ":")
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", f.Line, f.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	return b.String() + f.Problem + "; " + f.Remedy
}

// Faults is everything that is wrong with a configuration, in the order of the
// file. No fault quotes what came through a reference, since it may be a
// secret: it shows the reference.
type Faults []Fault

// Error lists the faults, one per line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// position is a place in the file, from 1.
type position struct{ line, column int }

// report gathers faults, and knows where in the file each key is.
type report struct {
	file   string
	faults Faults
	where  map[path]position
	spoilt map[path]bool
	filled map[path]bool // a reference was replaced in it
	// texts are the values as they are written, references and all, without those
	// that may be secrets.
	texts map[path]string
}

func newReport(file string) *report {
	return &report{file: file, where: map[path]position{}, spoilt: map[path]bool{}, filled: map[path]bool{}, texts: map[path]string{}}
}

// fault reports what is wrong at a path.
func (r *report) fault(at path, problem, remedy string) {
	r.faultIn(r.nearest(at), at, problem, remedy)
}

// reject reports a value of which no more can be said: it and what is in it
// are not sound any more.
func (r *report) reject(at path, problem, remedy string) {
	r.fault(at, problem, remedy)
	r.spoilt[at] = true
}

// faultOfValue is fault with the value as it is written. What a reference stands
// for is not shown, but which.
func (r *report) faultOfValue(at path, problem, remedy string) {
	text := r.texts[at]
	if text == "" || text == `""` {
		r.fault(at, problem, remedy)
		return
	}
	if r.filled[at] {
		remedy += "; look at " + strings.Join(referred(text), " and ")
	}
	r.fault(at, problem, remedy)
	r.faults[len(r.faults)-1].Value = text
}

// rejectValue is reject with the value as it is written.
func (r *report) rejectValue(at path, problem, remedy string) {
	r.faultOfValue(at, problem, remedy)
	r.spoilt[at] = true
}

func (r *report) faultIn(where position, at path, problem, remedy string) {
	r.faults = append(r.faults, Fault{
		File: r.file, Line: where.line, Column: where.column,
		Path: string(at), Problem: problem, Remedy: remedy,
	})
}

// nearest is where a path is written, or the section that lacks it.
func (r *report) nearest(at path) position {
	var best path
	for p := range r.where {
		if at.within(p) && len(p) > len(best) {
			best = p
		}
	}
	return r.where[best]
}

// written reports whether the file has the key.
func (r *report) written(at path) bool {
	_, ok := r.where[at]
	return ok
}

// names says what the value of a path names. One that came through a reference is
// not shown: whoever mistook a variable for another has a secret there.
func (r *report) names(at path, value string) string {
	if r.filled[at] {
		return "names by its reference something"
	}
	return "names " + strconv.Quote(value)
}

// place names a path for a person who has the file before them.
func (r *report) place(at path) string {
	if where, ok := r.where[at]; ok {
		return fmt.Sprintf("line %d", where.line)
	}
	return string(at)
}

// sound reports whether all these paths, and what they are in, were accepted
// so far, so that another rule does not repeat a known fault.
func (r *report) sound(paths ...path) bool {
	for spoilt := range r.spoilt {
		if slices.ContainsFunc(paths, func(p path) bool { return p.within(spoilt) }) {
			return false
		}
	}
	return true
}

// faultless reports whether nothing was said so far about a section and what is
// in it.
func (r *report) faultless(at path) bool {
	return !slices.ContainsFunc(r.faults, func(f Fault) bool { return path(f.Path).within(at) || at.within(path(f.Path)) })
}

// err returns the faults in the order of the file, or nil.
func (r *report) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Path, b.Path))
	})
	return r.faults
}
