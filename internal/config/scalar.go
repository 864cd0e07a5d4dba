package config

import (
	"errors"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/shopspring/decimal"
)

// Numbers are read from the text itself, so that a price stays exact and
// nothing is a number in YAML's octal or exponent notations.
const (
	wholePattern   = `^-?(0|[1-9][0-9]{0,18})$`
	numberPattern  = `^-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,18})?$`
	decimalPattern = `^-?(0|[1-9][0-9]{0,9})(\.[0-9]{1,10})?$`
)

var (
	wholeText   = regexp.MustCompile(wholePattern)
	numberText  = regexp.MustCompile(numberPattern)
	decimalText = regexp.MustCompile(decimalPattern)
)

// scalar is a single value of the file after its references were replaced.
type scalar struct {
	text   string
	quoted bool // text by its own form: in quotes or a block
	worded bool // text because it reads as nothing else
	filled bool // references were replaced in it, so it may be any type
}

func (s scalar) isText() bool   { return s.quoted || s.worded || s.filled }
func (s scalar) isNumber() bool { return !s.quoted || s.filled }

// scalar decodes a single value.
func (d decoder) scalar(node ast.Node, v reflect.Value, at path) {
	s, ok := readScalar(node)
	if !ok {
		d.rejectKind(node, at, problem{"is not a single value", "write one value"})
		return
	}
	if _, secret := v.Interface().(Secret); !secret {
		d.texts[at] = s.shown()
	}
	if strings.Contains(s.text, "${") {
		text, problems := substitute(s.text, d.env)
		for _, p := range problems {
			d.reject(at, p.what, p.remedy)
		}
		if len(problems) > 0 {
			return
		}
		s.text, s.filled = text, true
		d.filled[at] = true
	}
	if p := assign(s, v); p != nil {
		d.rejectValue(at, p.what, p.remedy)
	}
}

// longestShown is how long a value may be that a fault shows. Keys and tokens are
// longer, and may stand in the wrong place.
const longestShown = 15

// shown is the value as the file has it; empty where it may be a secret.
func (s scalar) shown() string {
	text := s.text
	if len(literal(text)) > longestShown {
		return ""
	}
	if s.quoted || s.worded {
		return strconv.Quote(text)
	}
	return text
}

func readScalar(node ast.Node) (scalar, bool) {
	switch node := node.(type) {
	case *ast.StringNode:
		quoted := node.Token.Type == token.SingleQuoteType || node.Token.Type == token.DoubleQuoteType
		return scalar{text: node.Value, quoted: quoted, worded: !quoted}, true
	case *ast.LiteralNode:
		return scalar{text: node.Value.Value, quoted: true}, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return scalar{text: node.GetToken().Value}, true
	default:
		return scalar{}, false
	}
}

// assign sets v from the text, or says why it cannot.
func assign(s scalar, v reflect.Value) *problem {
	switch v.Interface().(type) {
	case time.Duration:
		return assignDuration(s, v)
	case Size:
		return assignSize(s, v)
	case Secret:
		return assignText(s, func(text string) { v.Set(reflect.ValueOf(Secret{text})) })
	case decimal.Decimal:
		return assignDecimal(s, v)
	case Rate:
		return assignRate(s, v)
	case WindowSize:
		return assignWindowSize(s, v)
	case SlowCall:
		return assignDuration(s, v.FieldByName("Base"))
	}
	switch v.Kind() {
	case reflect.Bool:
		return assignBool(s, v)
	case reflect.Int:
		return assignInt(s, v)
	case reflect.Float64:
		return assignFloat(s, v)
	default:
		return assignText(s, v.SetString)
	}
}

func assignText(s scalar, set func(string)) *problem {
	switch {
	case !s.isText():
		return &problem{"is not text", "put it in quotes"}
	case !utf8.ValidString(s.text):
		return &problem{"is not UTF-8", "check the value, or where it comes from"}
	}
	set(s.text)
	return nil
}

func assignDuration(s scalar, v reflect.Value) *problem {
	if wholeText.MatchString(s.text) && s.text != "0" {
		return &problem{"has no unit", "add ms, s, m or h"}
	}
	d, err := time.ParseDuration(s.text)
	if err != nil {
		return &problem{"is not a duration", "write a number and its unit, such as 250ms, 30s, 10m or 1h30m"}
	}
	v.SetInt(int64(d))
	return nil
}

func assignSize(s scalar, v reflect.Value) *problem {
	size, err := parseSize(s.text)
	switch {
	case errors.Is(err, errSizeLarge):
		return &problem{err.Error(), "give it less than 8388608TiB"}
	case err != nil && s.filled:
		return &problem{err.Error(), sizeRemedy("")}
	case err != nil:
		return &problem{err.Error(), sizeRemedy(s.text)}
	}
	v.SetInt(int64(size))
	return nil
}

func assignDecimal(s scalar, v reflect.Value) *problem {
	if !s.isNumber() || !decimalText.MatchString(s.text) {
		return &problem{"is not an amount of money", "write USD without quotes and with at most 10 decimals, such as 0.40"}
	}
	price, err := decimal.NewFromString(s.text)
	if err != nil {
		return &problem{"is not an amount of money", "write USD, such as 0.40"}
	}
	v.Set(reflect.ValueOf(price))
	return nil
}

func assignBool(s scalar, v reflect.Value) *problem {
	if !s.isNumber() || s.text != "true" && s.text != "false" {
		return &problem{"is not true or false", "write true or false, without quotes"}
	}
	v.SetBool(s.text == "true")
	return nil
}

func assignInt(s scalar, v reflect.Value) *problem {
	if !s.isNumber() || !wholeText.MatchString(s.text) {
		return &problem{"is not a whole number", "write digits only, without quotes"}
	}
	n, err := strconv.Atoi(s.text)
	if err != nil {
		return &problem{"is too large", "give it a smaller number"}
	}
	v.SetInt(int64(n))
	return nil
}

func assignRate(s scalar, v reflect.Value) *problem {
	if p := notANumber(s); p != nil {
		return p
	}
	rate, err := rateOf(s.text)
	if err != nil {
		return &problem{err.Error(), "write fewer, such as 0.333333"}
	}
	v.SetInt(int64(rate))
	return nil
}

func assignWindowSize(s scalar, v reflect.Value) *problem {
	size, err := parseWindowSize(s.text)
	switch {
	case size.Calls != 0 && !s.isNumber():
		return &problem{"is a number of calls in quotes", "write digits only, without quotes"}
	case errors.Is(err, errWindowForm):
		return &problem{err.Error(), "write one such as 30s, or with type: count one such as 20"}
	case err != nil:
		return &problem{"is too large", "give it a smaller number"}
	}
	v.Set(reflect.ValueOf(size))
	return nil
}

// notANumber says why a value is none, or nothing.
func notANumber(s scalar) *problem {
	switch _, percent := strings.CutSuffix(s.text, "%"); {
	case percent:
		return &problem{"is a percentage", "write a fraction, such as 0.5 for 50%"}
	case !s.isNumber() || !numberText.MatchString(s.text):
		return &problem{"is not a number", "write one without quotes, such as 0.5"}
	default:
		return nil
	}
}

func assignFloat(s scalar, v reflect.Value) *problem {
	if p := notANumber(s); p != nil {
		return p
	}
	f, err := strconv.ParseFloat(s.text, 64)
	if err != nil {
		return &problem{"is not a number", "write one such as 0.5"}
	}
	v.SetFloat(f)
	return nil
}
