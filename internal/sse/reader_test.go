package sse_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/sse"
)

type event struct{ Raw, Data string }

// readAll returns every event of src and the error that ended it, io.EOF
// being nil.
func readAll(src io.Reader) ([]event, error) {
	var events []event
	r := sse.NewReader(src)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event{string(e.Raw), string(e.Data)})
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   string
		want []event
		err  error
	}{
		"LF":                      {in: "data: a\n\ndata: b\n\n", want: []event{{"data: a\n\n", "a"}, {"data: b\n\n", "b"}}},
		"CRLF":                    {in: "data: a\r\n\r\ndata: b\r\n\r\n", want: []event{{"data: a\r\n\r\n", "a"}, {"data: b\r\n\r\n", "b"}}},
		"CR":                      {in: "data: a\r\rdata: b\r\r", want: []event{{"data: a\r\r", "a"}, {"data: b\r\r", "b"}}},
		"byte order mark":         {in: "\xEF\xBB\xBFdata: a\n\n", want: []event{{"data: a\n\n", "a"}}},
		"no space":                {in: "data:a\n\n", want: []event{{"data:a\n\n", "a"}}},
		"one space only":          {in: "data:  a\n\n", want: []event{{"data:  a\n\n", " a"}}},
		"comment blocks":          {in: ": ping\n\n: ping\n\ndata: a\n\n: ping\n\n", want: []event{{"data: a\n\n", "a"}}},
		"comment before":          {in: ": ping\ndata: a\n\n", want: []event{{"data: a\n\n", "a"}}},
		"comment inside":          {in: "event: x\n: ping\ndata: a\n\n", want: []event{{"event: x\n: ping\ndata: a\n\n", "a"}}},
		"other fields":            {in: "id: 7\nevent: x\ndata: a\n\n", want: []event{{"id: 7\nevent: x\ndata: a\n\n", "a"}}},
		"several data lines":      {in: "data: a\ndata\ndata: b\n\n", want: []event{{"data: a\ndata\ndata: b\n\n", "a\n\nb"}}},
		"several with CRLF":       {in: "data: a\r\ndata: b\r\n\r\n", want: []event{{"data: a\r\ndata: b\r\n\r\n", "a\nb"}}},
		"event without data":      {in: "event: x\n\nretry: 3\n\ndata: a\n\n", want: []event{{"data: a\n\n", "a"}}},
		"empty data":              {in: "data:\n\ndata\n\ndata: a\n\n", want: []event{{"data: a\n\n", "a"}}},
		"a field named like data": {in: "database: x\n\n", want: nil},
		"blank lines between":     {in: "\n\n\ndata: a\n\n\n\n", want: []event{{"data: a\n\n", "a"}}},
		"no blank line at end":    {in: "data: a\n\ndata: b\n", want: []event{{"data: a\n\n", "a"}, {"data: b\n\n", "b"}}},
		"CRLF at end":             {in: "data: a\r\n\r\ndata: b\r\n\r", want: []event{{"data: a\r\n\r\n", "a"}, {"data: b\r\n\r", "b"}}},
		"cut inside a line":       {in: "data: a\n\ndata: b", want: []event{{"data: a\n\n", "a"}}, err: io.ErrUnexpectedEOF},
		"nothing":                 {in: ""},
		"multi-byte":              {in: "data: 你好\n\n", want: []event{{"data: 你好\n\n", "你好"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way, src := range waysToRead(tt.in) {
				got, err := readAll(src)
				if !errors.Is(err, tt.err) {
					t.Errorf("%s: error %v, want %v", way, err, tt.err)
				}
				want := tt.want
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: events (-want +got):\n%s", way, diff)
				}
			}
		})
	}
}

// waysToRead cuts the same bytes at different edges (SSE-01).
func waysToRead(in string) map[string]io.Reader {
	return map[string]io.Reader{
		"whole":           strings.NewReader(in),
		"by byte":         iotest.OneByteReader(strings.NewReader(in)),
		"halves":          iotest.HalfReader(strings.NewReader(in)),
		"end with data":   iotest.DataErrReader(strings.NewReader(in)),
		"byte, end early": iotest.DataErrReader(iotest.OneByteReader(strings.NewReader(in))),
	}
}

func TestReaderTellsAnEventsName(t *testing.T) {
	t.Parallel()
	const in = "data: a\n\nevent: error\ndata: b\n\nevent:x\nevent: y\r\ndata: c\r\n\r\nevents: z\ndata: d\n\nevent\ndata: e\n\nevent: lost\n\ndata: f\n\n"
	for way, src := range waysToRead(in) {
		got, err := named(src)
		if err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if diff := cmp.Diff([]string{":a", "error:b", "y:c", ":d", ":e", ":f"}, got); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", way, diff)
		}
	}
}

// named returns name and payload of every event.
func named(src io.Reader) ([]string, error) {
	var events []string
	for r := sse.NewReader(src); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, string(e.Name)+":"+string(e.Data))
	}
}

func TestReaderHasNoLineLimit(t *testing.T) { // SSE-07
	t.Parallel()
	raw := "data: " + strings.Repeat("x", 200<<10) + "\n\n"
	got, err := readAll(iotest.HalfReader(strings.NewReader(raw + "data: [DONE]\n\n")))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Raw != raw || got[1].Data != "[DONE]" {
		t.Errorf("got %d events, want the long one unchanged and [DONE]", len(got))
	}
}

func TestReaderRefusesAnOversizedEvent(t *testing.T) {
	t.Parallel()
	r := sse.NewReader(strings.NewReader("data: a\n\ndata: " + strings.Repeat("x", 100)))
	r.Limit(64)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	_, err := r.Next()
	var oversized *sse.OversizedError
	if !errors.As(err, &oversized) || oversized.Limit != 64 {
		t.Errorf("error %v, want an OversizedError with limit 64", err)
	}
}

func TestReaderSaysWhetherMoreIsInHand(t *testing.T) {
	t.Parallel()
	src := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n\ndata"), strings.NewReader(": c\n\n"))
	r := sse.NewReader(src)
	for _, want := range []struct {
		data string
		more bool
	}{{"a", true}, {"b", false}, {"c", false}} {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Data) != want.data || e.More != want.more {
			t.Errorf("got %q, more %v; want %q, %v", e.Data, e.More, want.data, want.more)
		}
	}
}

func TestReaderPassesOnTheSourcesError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want the source's", err)
	}
	if diff := cmp.Diff([]event{{"data: a\n\n", "a"}}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestReaderGivesUpOnASourceWithoutProgress(t *testing.T) {
	t.Parallel()
	if _, err := readAll(stuck{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("error %v, want io.ErrNoProgress", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestResetReadsAfresh(t *testing.T) {
	t.Parallel()
	r := sse.NewReader(strings.NewReader("data: a\n\ndata: b"))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	r.Reset(strings.NewReader("data: c\n\n"))
	e, err := r.Next()
	if err != nil || string(e.Data) != "c" {
		t.Errorf("got %q, %v; want c", e.Data, err)
	}
}

func TestReadingAStreamDoesNotAllocatePerEvent(t *testing.T) {
	stream := bytes.Repeat([]byte("data: {\"choices\":[]}\n\n"), 100)
	src := bytes.NewReader(stream)
	r := sse.NewReader(src)
	allocs := testing.AllocsPerRun(20, func() {
		src.Reset(stream)
		r.Reset(src)
		drain(t, r)
	})
	if allocs > 0 {
		t.Errorf("%v allocations for 100 events, want 0", allocs)
	}
}

func drain(tb testing.TB, r *sse.Reader) {
	for {
		_, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func FuzzReader(f *testing.F) {
	files, err := filepath.Glob("../wire/openai/testdata/*.sse")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("data: a\r\rdata: b\r\n\r\n: c\n\ndata\ndata:\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		want, wantNamed, wantErr := naive(string(stream))
		for way, src := range waysToRead(string(stream)) {
			got, err := readAll(src)
			if !errors.Is(err, wantErr) {
				t.Fatalf("%s: error %v, want %v", way, err, wantErr)
			}
			var data []string
			for _, e := range got {
				data = append(data, e.Data)
				again, _, _ := naive(e.Raw)
				if diff := cmp.Diff([]string{e.Data}, again); diff != "" {
					t.Fatalf("%s: the raw event %q reads differently (-want +got):\n%s", way, e.Raw, diff)
				}
			}
			if diff := cmp.Diff(want, data); diff != "" {
				t.Fatalf("%s: payloads (-want +got):\n%s", way, diff)
			}
		}
		if gotNamed, _ := named(iotest.OneByteReader(bytes.NewReader(stream))); !cmp.Equal(wantNamed, gotNamed) {
			t.Fatalf("names: %s", cmp.Diff(wantNamed, gotNamed))
		}
	})
}

// naive reads a stream by the letter of the standard, and then as Reader does
// at its end. It returns the payloads alone and with their names.
func naive(stream string) (events, named []string, err error) {
	stream = strings.TrimPrefix(stream, "\xEF\xBB\xBF")
	stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
	lines := strings.Split(stream, "\n")
	cut := lines[len(lines)-1] != ""
	lines[len(lines)-1] = ""

	var data []string
	var name string
	for i, line := range lines {
		field, value, _ := strings.Cut(line, ":")
		switch {
		case line == "" && (i < len(lines)-1 || !cut):
			if payload := strings.Join(data, "\n"); payload != "" {
				events, named = append(events, payload), append(named, name+":"+payload)
			}
			data, name = nil, ""
		case field == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		case field == "event":
			name = strings.TrimPrefix(value, " ")
		}
	}
	if cut {
		return events, named, io.ErrUnexpectedEOF
	}
	return events, named, nil
}

func BenchmarkReader(b *testing.B) {
	stream := bytes.Repeat([]byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1793000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`+"\n\n"), 100)
	src := bytes.NewReader(stream)
	r := sse.NewReader(src)
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		src.Reset(stream)
		r.Reset(src)
		drain(b, r)
	}
}
