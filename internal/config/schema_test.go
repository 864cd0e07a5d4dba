package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// form is as much of JSON Schema as ours uses; a key of it that is not listed
// here fails the test, so that nothing is left unchecked.
type form struct {
	Schema               string           `json:"$schema"`
	Ref                  string           `json:"$ref"`
	Defs                 map[string]*form `json:"$defs"`
	AnyOf                []*form          `json:"anyOf"`
	Type                 string           `json:"type"`
	Const                any              `json:"const"`
	Enum                 []any            `json:"enum"`
	Pattern              string           `json:"pattern"`
	Minimum              *float64         `json:"minimum"`
	ExclusiveMinimum     *float64         `json:"exclusiveMinimum"`
	Maximum              *float64         `json:"maximum"`
	Properties           map[string]*form `json:"properties"`
	AdditionalProperties any              `json:"additionalProperties"`
	PropertyNames        *form            `json:"propertyNames"`
	Items                *form            `json:"items"`
	Required             []string         `json:"required"`
	Title                string           `json:"title"`
	Description          string           `json:"description"`
	Default              any              `json:"default"`
}

func readSchema(t *testing.T) *form {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	return readForm(t, text)
}

func readForm(t *testing.T, text []byte) *form {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	var f form
	if err := decoder.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return &f
}

// faultsOf validates a value; root holds the shared forms.
func (f *form) faultsOf(t *testing.T, root *form, at string, v any) []string {
	t.Helper()
	if name, ok := strings.CutPrefix(f.Ref, "#/$defs/"); ok {
		return root.Defs[name].faultsOf(t, root, at, v)
	}
	if len(f.AnyOf) > 0 {
		if slices.ContainsFunc(f.AnyOf, func(one *form) bool { return len(one.faultsOf(t, root, at, v)) == 0 }) {
			return nil
		}
		return []string{at + ": none of its forms"}
	}
	switch v := v.(type) {
	case map[string]any:
		return f.faultsOfObject(t, root, at, v)
	case []any:
		if f.Type != "array" {
			return []string{at + ": a list"}
		}
		var faults []string
		for i, element := range v {
			faults = append(faults, f.Items.faultsOf(t, root, fmt.Sprintf("%s[%d]", at, i), element)...)
		}
		return faults
	default:
		return f.faultsOfScalar(at, v)
	}
}

func (f *form) faultsOfObject(t *testing.T, root *form, at string, object map[string]any) []string {
	t.Helper()
	if f.Type != "object" {
		return []string{at + ": a section"}
	}
	var faults []string
	for _, name := range f.Required {
		if _, ok := object[name]; !ok {
			faults = append(faults, at+": lacks "+name)
		}
	}
	for name, value := range object {
		property := f.Properties[name]
		if others, ok := f.AdditionalProperties.(map[string]any); property == nil && ok {
			text, err := json.Marshal(others)
			if err != nil {
				t.Fatal(err)
			}
			property = readForm(t, text)
		}
		if property == nil || f.PropertyNames != nil && !regexp.MustCompile(f.PropertyNames.Pattern).MatchString(name) {
			faults = append(faults, at+": has "+name)
			continue
		}
		faults = append(faults, property.faultsOf(t, root, at+"."+name, value)...)
	}
	return faults
}

func (f *form) faultsOfScalar(at string, v any) []string {
	wrong := []string{fmt.Sprintf("%s: %v", at, v)}
	number, isNumber := toFloat(v)
	text, isText := v.(string)
	_, isBool := v.(bool)
	switch {
	case f.Const != nil && !(isNumber && number == f.Const):
	case f.Type == "string" && !isText, f.Type == "boolean" && !isBool, f.Type == "object", f.Type == "array":
	case (f.Type == "number" || f.Type == "integer") && !isNumber, f.Type == "integer" && number != float64(int64(number)):
	case f.Enum != nil && !slices.Contains(f.Enum, v):
	case f.Pattern != "" && !regexp.MustCompile(f.Pattern).MatchString(text):
	case f.Minimum != nil && number < *f.Minimum, f.Maximum != nil && number > *f.Maximum:
	case f.ExclusiveMinimum != nil && number <= *f.ExclusiveMinimum:
	default:
		return nil
	}
	return wrong
}

func toFloat(v any) (float64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanUint():
		return float64(r.Uint()), true
	case r.CanFloat():
		return r.Float(), true
	default:
		return 0, false
	}
}

func readYAML(t *testing.T, file string) any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

func TestSchemaAcceptsWhatTheLoaderAccepts(t *testing.T) {
	t.Parallel()
	schema := readSchema(t)
	for _, pattern := range []string{"testdata/good/*.yaml", "../../examples/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		if len(files) == 0 {
			t.Fatalf("no files in %s", pattern)
		}
		for _, file := range files {
			if faults := schema.faultsOf(t, schema, "", readYAML(t, file)); len(faults) > 0 {
				t.Errorf("%s is refused by the schema:\n%s", file, strings.Join(faults, "\n"))
			}
		}
	}
}

func TestSchemaRefusesWhatAnEditorCanSee(t *testing.T) {
	t.Parallel()
	schema := readSchema(t)
	for file, least := range map[string]int{
		"cfg01_typo": 3, "cfg01_entries_at_column_0": 2, "wrong_types": 18, "not_built_yet": 1, "limits": 10, "empty_sections": 7,
		"auth": 1, "breakers_matches": 5, "breakers_values": 10, "cfg06_breaker_negative": 4, "cfg06_breaker_zero": 3, "fallback_on": 3, "cfg03_references": 1, "providers": 4,
	} {
		faults := schema.faultsOf(t, schema, "", readYAML(t, "testdata/bad/"+file+".yaml"))
		if len(faults) < least {
			t.Errorf("%s has %d faults by the schema, want %d or more:\n%s", file, len(faults), least, strings.Join(faults, "\n"))
		}
	}
}

func TestSchemaIsClosedAndDescribesEveryKey(t *testing.T) {
	t.Parallel()
	var walk func(at string, f *form)
	walk = func(at string, f *form) {
		if f.Properties != nil && f.AdditionalProperties != false {
			t.Errorf("%s lets unknown keys in", at)
		}
		for name, property := range f.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s is not described", at, name)
			}
			walk(at+"."+name, property)
		}
		if others, ok := f.AdditionalProperties.(map[string]any); ok {
			text, err := json.Marshal(others)
			if err != nil {
				t.Fatal(err)
			}
			walk(at+".*", readForm(t, text))
		}
		if f.Items != nil {
			walk(at+"[]", f.Items)
		}
	}
	walk("", readSchema(t))
}
