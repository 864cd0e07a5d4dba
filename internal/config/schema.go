package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

const durationPattern = `^-?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`

// forms are those that many keys share. A reference may stand for a number, a
// flag or a word, since it is replaced before the value is read.
func forms() jsonschema.Definitions {
	reference := refer("reference")
	return jsonschema.Definitions{
		"reference": {Type: "string", Pattern: `\$\{[^}]+\}`},
		"size":      {AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: sizePattern}, reference}},
		"window_size": {AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: durationPattern},
			{Type: "integer", Minimum: "1", Maximum: json.Number(strconv.Itoa(maxWindowCalls))},
			reference,
		}},
		"slow_call": {AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: durationPattern}, slowCallSection(), reference}},
		"duration":  {AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: durationPattern}, {Const: 0}, reference}},
	}
}

// slowCallSection is the long form of a SlowCall.
func slowCallSection() *jsonschema.Schema {
	section := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), Required: []string{"base"}, AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range fieldsOf(reflect.TypeFor[SlowCall]()) {
		property := refer("duration")
		property.Description = f.doc
		section.Properties.Set(f.name, property)
	}
	return section
}

func refer(form string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + form} }

// Schema returns the JSON Schema of the configuration file, made from the same
// structs, defaults and rules by which a file is read. Rules that look at
// several keys are not in it.
func Schema() ([]byte, error) {
	reflector := jsonschema.Reflector{
		Anonymous:                  true,
		DoNotReference:             true,
		ExpandedStruct:             true,
		FieldNameTag:               "yaml",
		RequiredFromJSONSchemaTags: true,
		Mapper:                     leafSchema,
	}
	c := defaults(false)
	schema := reflector.Reflect(c)
	schema.Title = "Breakwater configuration"
	describe(schema, reflect.ValueOf(c).Elem())
	schema.Definitions = forms()
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	return append(text, '\n'), nil
}

// leafSchema is the form of the types that are text in the file.
func leafSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return refer("duration")
	case reflect.TypeFor[Size]():
		return refer("size")
	case reflect.TypeFor[Secret]():
		return &jsonschema.Schema{Type: "string"}
	case reflect.TypeFor[WindowSize]():
		return refer("window_size")
	case reflect.TypeFor[SlowCall]():
		return refer("slow_call")
	case reflect.TypeFor[decimal.Decimal](), reflect.TypeFor[Rate]():
		return &jsonschema.Schema{Type: "number"}
	case reflect.TypeFor[llm.FailureClass]():
		return &jsonschema.Schema{Type: "string", Enum: list(fallbackClasses())}
	default:
		return nil
	}
}

// describe adds to a section what its tags and its defaults say.
func describe(schema *jsonschema.Schema, v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		property, _ := schema.Properties.Get(f.name)
		value := f.of(v)
		restrict(property, parseRules(f.check))
		if strings.HasPrefix(f.check, "required") {
			schema.Required = append(schema.Required, f.name)
		}
		property = describeValue(property, value)
		property.Description = f.doc
		if f.restart {
			property.Description += " A change needs a restart."
		}
		schema.Properties.Set(f.name, property)
	}
}

// describeValue goes on into what a value holds, and lets a single value be
// written as a reference too.
func describeValue(schema *jsonschema.Schema, v reflect.Value) *jsonschema.Schema {
	if isLeaf(v.Type()) {
		schema.Default = defaultOf(v)
		return orReference(schema)
	}
	switch v.Kind() {
	case reflect.Struct:
		describe(schema, v)
	case reflect.Map:
		schema.AdditionalProperties = describeValue(schema.AdditionalProperties, elementOf(v.Type().Elem()))
	case reflect.Slice:
		schema.Items = describeValue(schema.Items, elementOf(v.Type().Elem()))
	case reflect.Pointer:
		return describeValue(schema, elementOf(v.Type().Elem()))
	}
	return schema
}

// elementOf returns an element as it is when the file says nothing about it.
func elementOf(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	setDefaults(v)
	return v
}

func defaultOf(v reflect.Value) any {
	if v.IsZero() {
		return nil
	}
	return shown(v)
}

func restrict(schema *jsonschema.Schema, rules []rule) {
	for _, r := range rules {
		switch number := schema.Type == "integer" || schema.Type == "number"; {
		case r.name == "oneof":
			schema.Enum = list(strings.Split(r.bound, "|"))
		case r.name == "name" && schema.Type == "object":
			schema.PropertyNames = &jsonschema.Schema{Pattern: plainName.String()}
		case r.name == "name":
			schema.Pattern = plainName.String()
		case r.name == "glob":
			schema.Pattern = globPattern
		case r.name == "min" && number:
			schema.Minimum = json.Number(r.bound)
		case r.name == "over" && number:
			schema.ExclusiveMinimum = json.Number(r.bound)
		case r.name == "max" && number:
			schema.Maximum = json.Number(r.bound)
		}
	}
}

// orReference lets a value be written as a reference instead, where it could
// not be any text at all.
func orReference(schema *jsonschema.Schema) *jsonschema.Schema {
	if schema.Ref != "" || schema.Type == "string" && schema.Pattern == "" && schema.Enum == nil {
		return schema
	}
	preset := schema.Default
	schema.Default = nil
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{schema, refer("reference")}, Default: preset}
}

func list(words []string) []any {
	list := make([]any, len(words))
	for i, word := range words {
		list[i] = word
	}
	return list
}
