package config

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// The rules that one value can be held to by itself stand in its `check` tag,
// and the schema states them too:
//
//	over=0s     more than a bound       required   must be written
//	min=1       at least                nonempty   may not be emptied
//	max=100     at most                 name       made of a-z, 0-9 and -
//	oneof=a|b   one of these words      visible    no spaces, no control characters
//	glob        a pattern of circuits   optional   an unwritten 0 means "not set"

// rule is one part of a `check` tag.
type rule struct{ name, bound string }

func parseRules(tag string) []rule {
	var rules []rule
	for part := range strings.SplitSeq(tag, ",") {
		name, bound, _ := strings.Cut(part, "=")
		rules = append(rules, rule{name, bound})
	}
	return rules
}

// field is a key of a section.
type field struct {
	name  string
	omit  bool  // not shown while it is zero
	index []int // for reflect.Value.FieldByIndex
	doc   string
	check string
	// restart: a running process keeps the value it began with.
	restart bool
}

// of returns the value that a section has for the key.
func (f field) of(section reflect.Value) reflect.Value { return section.FieldByIndex(f.index) }

// fieldsOf returns the keys of a section in the order of the struct; those of
// an embedded struct are keys of the section itself.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue // what was read elsewhere
		}
		if t.Field(i).Anonymous {
			fields = append(fields, inlined(i, t.Field(i).Type)...)
			continue
		}
		tag := t.Field(i).Tag
		name, option, _ := strings.Cut(tag.Get("yaml"), ",")
		fields = append(fields, field{name: name, omit: option == "omitempty", index: []int{i}, doc: tag.Get("doc"), check: tag.Get("check"), restart: tag.Get("change") == "restart"})
	}
	if part, ok := reflect.Zero(t).Interface().(partial); ok {
		borrow(fields, fieldsOf(reflect.TypeOf(part.whole())))
	}
	return fields
}

func inlined(i int, t reflect.Type) []field {
	fields := fieldsOf(t)
	for n := range fields {
		fields[n].index = append([]int{i}, fields[n].index...)
	}
	return fields
}

// partial is a section that holds some keys of another one, which says what
// they mean and what they may be.
type partial interface{ whole() any }

// borrow gives the keys of a partial section the words and rules of the whole.
func borrow(part, whole []field) {
	for i := range part {
		if n := slices.IndexFunc(whole, func(f field) bool { return f.name == part[i].name }); n >= 0 {
			part[i].doc, part[i].check = whole[n].doc, whole[n].check
		}
	}
}

// isLeaf reports whether a type is a single value in the file, whatever Go has
// it as.
func isLeaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		return false
	case reflect.Struct:
		return t == reflect.TypeFor[Secret]() || t == reflect.TypeFor[decimal.Decimal]() || t == reflect.TypeFor[WindowSize]() || t == reflect.TypeFor[SlowCall]()
	default:
		return true
	}
}

func checkRules(r *report, at path, c *Config) { walkRules(r, at, reflect.ValueOf(c).Elem(), "") }

func walkRules(r *report, at path, v reflect.Value, check string) {
	if isLeaf(v.Type()) {
		if check != "" && r.sound(at) {
			checkLeaf(r, at, v.Interface(), parseRules(check))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walkRules(r, at, v.Elem(), check)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			walkRules(r, at.key(key.String()), v.MapIndex(key), check)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkRules(r, at.index(i), v.Index(i), check)
		}
	default:
		for _, f := range fieldsOf(v.Type()) {
			walkRules(r, at.key(f.name), f.of(v), f.check)
		}
	}
}

func checkLeaf(r *report, at path, value any, rules []rule) {
	if f, ok := value.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		r.reject(at, "is not a finite number", "write a number, such as 0.5")
		return
	}
	for _, rule := range rules {
		if rule.name == "optional" && !r.written(at) && reflect.ValueOf(value).IsZero() {
			return
		}
	}
	for _, rule := range rules {
		if problem, remedy := rule.broken(value, rules); problem != "" {
			r.rejectValue(at, problem, remedy)
			return
		}
	}
}

// broken says how a value breaks the rule and what to do about it, or nothing.
func (r rule) broken(value any, all []rule) (problem, remedy string) {
	switch r.name {
	case "over":
		if compare(value, r.bound) <= 0 {
			return "is too small", "give it more than " + r.bound
		}
	case "min":
		if compare(value, r.bound) < 0 {
			return "is too small", "give it at least " + r.bound
		}
	case "max":
		if compare(value, r.bound) > 0 {
			return "is too large", "give it at most " + r.bound
		}
	case "required":
		if value == "" {
			return "is missing", "write " + words(all)
		}
	case "glob":
		if !isGlob(value.(string)) {
			return "is not a pattern for circuits", "write " + words(all)
		}
	case "nonempty":
		if value == "" {
			return "is empty", "give it a value, or remove it"
		}
	case "oneof":
		if !containsWord(r.bound, value.(string)) {
			return "is not a value it may have", "write " + words(all)
		}
	case "name":
		if !plainName.MatchString(value.(string)) {
			return "is not a name", "use a-z, 0-9 and - only"
		}
	case "visible":
		if s := value.(Secret); s.IsSet() && !isVisible(s.Reveal()) {
			return "holds a space or an invisible character", "check the value, or where it comes from"
		}
	}
	return "", ""
}

func containsWord(list, word string) bool {
	for candidate := range strings.SplitSeq(list, "|") {
		if candidate == word {
			return true
		}
	}
	return false
}

// words says what may be written, for a person.
func words(rules []rule) string {
	for _, r := range rules {
		if r.name == "glob" {
			return "provider/model/region, with * for anything, such as openai/*/*"
		}
		if r.name != "oneof" {
			continue
		}
		list := strings.Split(r.bound, "|")
		if list[0] == "" {
			list[0] = `""`
		}
		last := list[len(list)-1]
		if len(list) == 1 {
			return last
		}
		return strings.Join(list[:len(list)-1], ", ") + " or " + last
	}
	return ""
}

// compare orders a value and a bound written in the value's own form. A bound
// that cannot be read is a mistake in a tag, not in a configuration.
func compare(value any, bound string) int {
	switch v := value.(type) {
	case time.Duration:
		return cmp.Compare(v, must(time.ParseDuration(bound)))
	case Size:
		return cmp.Compare(v, must(parseSize(bound)))
	case int:
		return cmp.Compare(v, must(strconv.Atoi(bound)))
	case float64:
		return cmp.Compare(v, must(strconv.ParseFloat(bound, 64)))
	case Rate:
		return cmp.Compare(v, must(rateOf(bound)))
	case decimal.Decimal:
		return v.Cmp(must(decimal.NewFromString(bound)))
	default:
		panic(fmt.Sprintf("config: a %T has no order", value))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("config: " + err.Error())
	}
	return v
}
