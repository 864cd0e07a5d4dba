package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a configuration file, far above any real one.
const maxFile = MiB

// decoder fills a Config from a YAML document. It goes on after a fault, keeps
// where each key was written, and knows the keys from the structs themselves.
type decoder struct {
	*report
	env func(string) (string, bool)
}

// decodeDocument fills the struct that into points to, which holds the defaults,
// from a file.
func decodeDocument(data []byte, env func(string) (string, bool), r *report, into any) {
	d := decoder{report: r, env: env}
	r.where[""] = position{1, 1}
	if len(data) > int(maxFile) {
		r.reject("", "the file is over "+maxFile.String(), "shorten it")
		return
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors put a byte order mark first
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.rejectSyntax(err, data)
		return
	}
	if len(file.Docs) > 1 {
		d.reject("", "the file holds several documents or a directive", "keep one document, without --- and %")
		return
	}
	// A file without any key is an empty section: what it lacks is reported.
	if len(file.Docs) == 1 && file.Docs[0].Body != nil {
		d.value(file.Docs[0].Body, reflect.ValueOf(into).Elem(), "")
	}
}

// rejectSyntax reports a file that is not YAML; nothing else can be said of it.
func (d decoder) rejectSyntax(err error, data []byte) {
	where, problem := position{1, 1}, "the file is not YAML"
	if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		problem = "the file is not YAML: " + unquoting(syntax.Message)
		if syntax.Token != nil && syntax.Token.Position != nil {
			where = position{syntax.Token.Position.Line, syntax.Token.Position.Column}
		}
	}
	remedy := "mend the line; indent with spaces, and quote text that holds special characters"
	lines := strings.Split(string(data), "\n")
	if where.line <= len(lines) && strings.Contains(lines[where.line-1], "${") {
		remedy = "inside { } and [ ] a reference needs quotes: \"${VAR}\""
	}
	d.spoilt[""] = true
	d.faultIn(where, "", problem, remedy)
}

// unquoting cuts a message of the parser off where it begins to quote: that may
// be a value, and the value a secret.
func unquoting(message string) string {
	said, _, _ := strings.Cut(message, `"`)
	return strings.TrimRight(said, ": ")
}

// defaulter is a section of which there may be many, each with its defaults.
type defaulter interface{ setDefaults() }

// value decodes a node into whatever v is.
func (d decoder) value(node ast.Node, v reflect.Value, at path) {
	switch {
	case node == nil || node.Type() == ast.NullType:
		d.rejectEmpty(v, at)
	case v.Type() == reflect.TypeFor[SlowCall]():
		d.slowCall(node, v, at)
	case isLeaf(v.Type()):
		d.scalar(node, v, at)
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			setDefaults(v.Elem())
		}
		d.value(node, v.Elem(), at)
	case v.Kind() == reflect.Slice:
		d.list(node, v, at)
	default:
		d.section(node, v, at)
	}
}

// slowCall decodes what may be one duration or a section, which stands for
// itself alone: none of its keys comes from another value.
func (d decoder) slowCall(node ast.Node, v reflect.Value, at path) {
	v.SetZero()
	if node.Type() == ast.MappingType {
		d.section(node, v, at)
		return
	}
	d.scalar(node, v, at)
}

func setDefaults(v reflect.Value) {
	if section, ok := v.Addr().Interface().(defaulter); ok {
		section.setDefaults()
	}
}

func (d decoder) rejectEmpty(v reflect.Value, at path) {
	switch t := deref(v.Type()); {
	case t.Kind() == reflect.Slice:
		d.reject(at, "is empty", "indent its elements under it, or remove it")
	case !isLeaf(t):
		d.reject(at, "is empty", "indent its entries under it, or write {}")
	default:
		d.reject(at, "has no value", "give it one, or remove it")
	}
}

func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func (d decoder) list(node ast.Node, v reflect.Value, at path) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		d.rejectKind(node, at, problem{"is not a list", "write its elements with - or in [ ]"})
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(sequence.Values), len(sequence.Values)))
	for i, element := range sequence.Values {
		p := at.index(i)
		d.where[p] = placeOf(element, d.nearest(at))
		setDefaults(v.Index(i))
		d.value(element, v.Index(i), p)
	}
}

// section decodes a mapping into a struct or a map, entry by entry.
func (d decoder) section(node ast.Node, v reflect.Value, at path) {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		d.rejectKind(node, at, problem{"is not a section", "write its keys under it or in { }"})
		return
	}
	entry := d.field
	if v.Kind() == reflect.Map {
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		entry = d.entry
	}
	seen := map[string]position{}
	emptied := "" // the last section without entries, whose entries may follow unindented
	for _, value := range mapping.Values {
		where := placeOf(value.Key, d.nearest(at))
		key, ok := keyOf(value.Key)
		if !ok {
			d.faultIn(where, at, "has a key that is not plain text", "write `key: value`; merge keys and complex keys are not supported")
			continue
		}
		if first, twice := seen[key]; twice {
			d.faultIn(where, at.key(key), fmt.Sprintf("is written twice, first in line %d", first.line), "remove one of them")
			continue
		}
		seen[key] = where
		entry(value, v, at, key, where, emptied)
		if value.Value != nil && value.Value.Type() == ast.NullType {
			emptied = key
		}
	}
}

// field decodes an entry of a struct.
func (d decoder) field(value *ast.MappingValueNode, v reflect.Value, at path, key string, where position, emptied string) {
	fields := fieldsOf(v.Type())
	known := make([]string, len(fields))
	for i, f := range fields {
		if f.name == key {
			d.where[at.key(key)] = where
			d.value(value.Value, f.of(v), at.key(key))
			return
		}
		known[i] = f.name
	}
	remedy := suggest(key, known)
	if emptied != "" && !strings.HasPrefix(remedy, "did you mean") {
		remedy = fmt.Sprintf("indent it if it belongs to %s, which is empty", emptied)
	}
	d.faultIn(where, at.key(key), "is not a key", remedy)
}

// entry decodes an entry of a map, whose key is a name that people chose.
func (d decoder) entry(value *ast.MappingValueNode, v reflect.Value, at path, key string, where position, _ string) {
	p := at.key(key)
	d.where[p] = where
	if strings.Contains(key, "${") {
		d.reject(p, "has a reference in its name", "references are replaced in values only; write the name out")
		return
	}
	element := reflect.New(v.Type().Elem()).Elem()
	setDefaults(element)
	if builtIn := v.MapIndex(reflect.ValueOf(key)); builtIn.IsValid() {
		element.Set(builtIn)
	}
	d.value(value.Value, element, p)
	v.SetMapIndex(reflect.ValueOf(key), element)
}

// rejectKind reports a node that is not of the shape the key asks for.
func (d decoder) rejectKind(node ast.Node, at path, otherwise problem) {
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.reject(at, "uses an anchor, an alias or a tag", "write the value out")
	default:
		d.reject(at, otherwise.what, otherwise.remedy)
	}
}

// keyOf returns the text of a plain key, whatever YAML takes it for.
func keyOf(node ast.MapKeyNode) (string, bool) {
	switch node := node.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	default:
		return "", false
	}
}

// placeOf is where a person sees a node begin.
func placeOf(node ast.Node, otherwise position) position {
	if mapping, ok := node.(*ast.MappingNode); ok && len(mapping.Values) > 0 && !mapping.IsFlowStyle {
		node = mapping.Values[0].Key
	}
	if node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return otherwise
	}
	p := node.GetToken().Position
	return position{p.Line, p.Column}
}
