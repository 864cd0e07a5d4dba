package jsonscan_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
)

// texts are JSON and nearly JSON, each a case of its own in the grammar.
var texts = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `nulll`, `True`, `"a"`, `"a`, `"`, `'a'`, `a`,
	`0`, `-0`, `-`, `+1`, `01`, `-01`, `1.`, `.1`, `1.5`, `1e`, `1e+`, `1E-07`, `1e5.5`, `0x1`, `1 2`, `-Infinity`,
	`{}`, `[]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[1`, `[`, `]`, `{`, `}`, `[}`, `{]`, `{"a"}`, `{"a":}`, `{"a":1,}`,
	`{"a":1 "b":2}`, `{a:1}`, `{1:1}`, `{"a":1}{}`, `{"a":{"b":[{},[]]}}`, "\t{\r\n\"a\" : 1 , \"b\" : [ ] }\n", "\v{}", "\uFEFF{}",
	`"\" \\ \/ \b\f\n\r\t"`, `"\u00e4\u4F60"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx"`, `"\ud83d\n"`,
	`"\x"`, `"\"`, `"\u12"`, `"\u12g4"`, `"\u123`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"a\nb\"", "\"\xff\"", "\"\xe4\xbd\"", "\"\xe4\xbd\xa0\"", "\"\xed\xa0\x80\"", "\"\xff",
	`"seven7\"eight888"`, "\"1234567\x1f\"", `"1234567"`, `"12345678"`, "\"\xff\xff\xff\xff\xff\xff\xff\xff!\"",
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\ud800":1,"\ud801":2}`, `{"a\udc00\ud800":1}`, `{"\ud83d\ude00":"\ud83d"}`, `{"a":["\udc00"],"a":2}`, `{"a":{"a":1},"b":[{"a":1},{"a":2}]}`, `{"":1,"":2}`,
	`{"x":` + strings.Repeat(`[`, 127) + strings.Repeat(`]`, 127) + `}`, `{"x":` + strings.Repeat(`[`, 128) + strings.Repeat(`]`, 128) + `}`,
	strings.Repeat(`[`, 10000) + strings.Repeat(`]`, 10000), strings.Repeat(`[`, 10001) + strings.Repeat(`]`, 10001),
	strings.Repeat(`{"":`, 10000) + `0` + strings.Repeat(`}`, 10000), strings.Repeat(`{"":`, 10001) + `0` + strings.Repeat(`}`, 10001),
	`1.7e308`, `1e309`, `-1e309`, `1e-400`, strings.Repeat(`9`, 310), `0.` + strings.Repeat(`3`, 398), `0.` + strings.Repeat(`3`, 399),
	members(100, ""), members(100, `,"n7":0`), members(100, `,"n99":0`), members(16, `,"n0":0`), members(15, `,"n14":0`),
}

// members returns an object of n members and whatever follows them.
func members(n int, then string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"n%d":{"n0":%d}`, i, i)
	}
	return "{" + b.String()[1:] + then + "}"
}

func TestScannersTakeWhatTheLibraryTakes(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		holdToLibrary(t, []byte(text))
	}
}

// FuzzScanner: a text is refused when the library refuses it, and only then
// but for the limits of Strict.
func FuzzScanner(f *testing.F) {
	for _, text := range texts {
		if len(text) < 1<<10 { // longer ones are slow to mutate
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) { holdToLibrary(t, text) })
}

func holdToLibrary(t *testing.T, text []byte) {
	t.Helper()
	shown := text[:min(len(text), 200)]
	lenient := jsonscan.Lenient(text)
	lenient.Skip()
	taken := lenient.End() == nil
	if want := jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); taken != want {
		t.Fatalf("lenient: %q taken: %v, want %v (%v)", shown, taken, want, lenient.Err())
	}
	strict := jsonscan.Strict(text)
	strict.Skip()
	taken = strict.End() == nil
	if want := utf8.Valid(text) && jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true)) && !beyondLimits(text); taken != want {
		t.Fatalf("strict: %q taken: %v, want %v (%v)", shown, taken, want, strict.Err())
	}
}

// beyondLimits says of valid JSON, token by token, whether Strict refuses it.
func beyondLimits(text []byte) bool {
	for dec := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true)); ; {
		start := dec.InputOffset()
		token, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if dec.StackDepth() > 128 {
			return true
		}
		if kind, n := dec.StackIndex(dec.StackDepth()); kind == jsontext.KindBeginObject && n%2 == 1 { // a name
			if name := bytes.Trim(text[start:dec.InputOffset()], " \t\r\n,"); !jsontext.Value(name).IsValid() {
				return true
			}
		}
		if token.Kind() == jsontext.KindNumber {
			number := strings.TrimPrefix(token.String(), "-")
			var value float64
			if _, err := fmt.Sscan(number, &value); err != nil || len(number) > 400 {
				return true
			}
		}
	}
}

func TestWalk(t *testing.T) {
	t.Parallel()
	var got []string
	note := func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) }
	s := jsonscan.Lenient([]byte(` { "t\u0065xt" : "h\u00e4 \ud83d\ude00\n" , "raw": [ 1 , {"x":[]} ] , "list":["a",2], "no": null, "flag":false }x`))
	for s.Object(); s.Member(); {
		switch name := string(s.Name); name {
		case "text":
			again := s // a copy is a scanner of its own
			note("%s: %q is %d bytes", name, s.Text(), again.TextLen())
		case "list":
			for s.Array(); s.Element(); {
				note("%s: %c before %d", name, s.Kind(), s.Offset())
				s.Skip()
			}
		case "no":
			note("%s: object %v", name, s.Object())
		default:
			note("%s: %c %s", name, s.Kind(), s.Value())
		}
	}
	note("end: %v", s.End())
	want := []string{
		`text: "hä 😀\n" is 9 bytes`,
		`raw: [ [ 1 , {"x":[]} ]`,
		`list: " before 78`,
		`list: 0 before 82`,
		`no: object false`,
		`flag: t false`,
		`end: unexpected 'x' at byte 112`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("walk (-want +got):\n%s", diff)
	}
}

func TestTheFirstFaultEndsTheWalk(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("not what was asked for")
	s := jsonscan.Lenient([]byte(`{"a":[1,2,"x"],"b":!`))
	steps := 0
	for s.Object(); s.Member(); steps++ {
		s.Fail(errOwn)
		for s.Array(); s.Element(); steps++ {
			s.Skip()
		}
	}
	if s.Kind() != jsonscan.Invalid || s.Value() != nil || s.Text() != nil || s.TextLen() != 0 {
		t.Error("something came after the fault")
	}
	if err := s.End(); !errors.Is(err, errOwn) || steps != 1 {
		t.Errorf("%d steps and error %v, want 1 and the first fault", steps, err)
	}
}

func TestFaultsNameTheirPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":1,"b":2,"a":3}`:      "duplicate name at byte 13",
		`{"a":1e999}`:              "a number too large at byte 5",
		strings.Repeat("[", 200):   "more than 128 levels of nesting at byte 128",
		`{"\ud800":1}`:             "half of a surrogate pair in a name at byte 1",
		`{"a":"\ud80"}`:            "invalid escape at byte 6",
		"{\"a\":\"\xff\"}":         "invalid UTF-8 at byte 5",
		`{"a":tru}`:                "unexpected 't' at byte 5",
		`{"a":"b`:                  "unexpected end at byte 7",
		"{\"a\":\"12345678\x01\"}": `unexpected '\x01' at byte 14`,
	} {
		s := jsonscan.Strict([]byte(text))
		s.Skip()
		var fault *jsonscan.SyntaxError
		if err := s.End(); !errors.As(err, &fault) || fault.Error() != want {
			t.Errorf("%.40s: error %q, want %q", text, err, want)
		}
	}
}

func BenchmarkSkip(b *testing.B) {
	text := []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1793000000,"choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("Tell me about the harbour. ", 40) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`)
	scan := func(s jsonscan.Scanner) error { s.Skip(); return s.End() }
	for name, read := range map[string]func() error{
		"lenient": func() error { return scan(jsonscan.Lenient(text)) },
		"strict":  func() error { return scan(jsonscan.Strict(text)) },
		"library": func() error {
			if !jsontext.Value(text).IsValid() {
				return errors.New("invalid")
			}
			return nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
