package config

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/shopspring/decimal"
)

// Show writes the effective configuration as YAML: every key with the value it
// has, defaults included, secrets masked.
func (c *Config) Show(w io.Writer) error {
	err := yaml.NewEncoder(w, yaml.Indent(2), yaml.IndentSequence(true)).Encode(shown(reflect.ValueOf(c).Elem()))
	if err != nil {
		return fmt.Errorf("show configuration: %w", err)
	}
	return nil
}

// ShowJSON returns what Show writes, as JSON.
func (c *Config) ShowJSON() ([]byte, error) {
	data, err := yaml.MarshalWithOptions(shown(reflect.ValueOf(c).Elem()), yaml.JSON())
	if err != nil {
		return nil, fmt.Errorf("show configuration: %w", err)
	}
	return data, nil
}

// bare is text that is written as it stands, without YAML's quotes.
type bare string

// MarshalYAML writes the text.
func (b bare) MarshalYAML() ([]byte, error) { return []byte(b), nil }

// MarshalJSON writes the text.
func (b bare) MarshalJSON() ([]byte, error) { return []byte(b), nil }

// shown turns a value into what stands for it in the file.
func shown(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return readable(value)
	case Size:
		return value.String()
	case Secret:
		return value.String()
	case decimal.Decimal:
		return bare(value.String())
	case Rate:
		return bare(value.String())
	case WindowSize:
		return value.shown()
	case SlowCall:
		return value.shown()
	case float64:
		return bare(strconv.FormatFloat(value, 'f', -1, 64))
	}
	switch v.Kind() {
	case reflect.Struct:
		return shownSection(v)
	case reflect.Map:
		return shownMap(v)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = shown(v.Index(i))
		}
		return list
	default:
		return v.Interface()
	}
}

// shownSection leaves out what has no meaning where it stands, such as a price
// that is not known or a clock that is left to the provider.
func shownSection(v reflect.Value) yaml.MapSlice {
	section := yaml.MapSlice{}
	for _, f := range fieldsOf(v.Type()) {
		value := f.of(v)
		if f.omit && value.IsZero() {
			continue
		}
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		section = append(section, yaml.MapItem{Key: f.name, Value: shown(value)})
	}
	return section
}

func shownMap(v reflect.Value) yaml.MapSlice {
	section := yaml.MapSlice{}
	for key, value := range v.Seq2() {
		section = append(section, yaml.MapItem{Key: key.String(), Value: shown(value)})
	}
	slices.SortFunc(section, func(a, b yaml.MapItem) int { return cmp.Compare(a.Key.(string), b.Key.(string)) })
	return section
}
