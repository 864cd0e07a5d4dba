package spool

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever happens in whatever order: what was appended comes out in its order,
// once per process, and is found again for as long as nobody is done with it.
func TestNothingAppendedIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "spool")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		m := &model{dir: dir}
		m.open(t)
		defer func() { m.spool.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"append":  m.append,
			"read":    m.read,
			"done":    m.done,
			"crash":   m.crash,
			"restart": func(t *rapid.T) { m.spool.Close(); m.open(t) },
		})
		m.crash(t)
		m.readAll(t)
	})
}

// model knows what is to come out: the records from position on. Those before
// done are never seen again once their segment is gone.
type model struct {
	dir     string
	spool   *Spool
	records []string
	reading int // the next record to be read
	done_   int // records that somebody is done with
}

func (m *model) open(t *rapid.T) {
	s, err := Open(Config{Dir: m.dir, Max: 1 << 20, Segment: 100}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m.spool, m.reading = s, -1
}

func (m *model) append(t *rapid.T) {
	record := fmt.Sprintf("%d %s", len(m.records), rapid.StringN(0, 60, -1).Draw(t, "record"))
	if err := m.spool.Append([]byte(record)); err != nil {
		t.Fatal(err)
	}
	m.records = append(m.records, record)
}

func (m *model) read(t *rapid.T) {
	record, err := m.spool.Next()
	if err == io.EOF {
		if m.reading < 0 && m.done_ < len(m.records) || m.reading >= 0 && m.reading < len(m.records) {
			t.Fatalf("no record, with %d of %d read", m.reading, len(m.records))
		}
		m.reading = len(m.records)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if m.reading < 0 { // of a new process: the first that is not gone
		m.reading = slices.Index(m.records, string(record))
		if m.reading < 0 || m.reading > m.done_ {
			t.Fatalf("begins with record %d, %d are done with", m.reading, m.done_)
		}
	}
	if m.reading >= len(m.records) || m.records[m.reading] != string(record) {
		t.Fatalf("got %q in place of record %d", record, m.reading)
	}
	m.reading++
}

func (m *model) readAll(t *rapid.T) {
	for {
		m.read(t)
		if m.reading == len(m.records) {
			break
		}
	}
	if _, err := m.spool.Next(); err != io.EOF {
		t.Fatalf("after the last record: %v, want EOF", err)
	}
}

func (m *model) done(*rapid.T) {
	m.spool.Done()
	m.done_ = max(m.done_, m.reading)
}

// crash ends the process while it writes a record.
func (m *model) crash(t *rapid.T) {
	m.spool.Close()
	names, err := filepath.Glob(filepath.Join(m.dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) > 0 {
		frame := appendFrame(nil, []byte("never finished"))
		torn := frame[:rapid.IntRange(0, len(frame)-1).Draw(t, "torn")]
		file, err := os.OpenFile(slices.Max(names), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(torn); err != nil {
			t.Fatal(err)
		}
	}
	m.open(t)
}
