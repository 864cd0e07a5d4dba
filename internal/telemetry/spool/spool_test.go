package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// open opens a spool until the test ends.
func open(t testing.TB, cfg Config) *Spool {
	t.Helper()
	if cfg.Max == 0 {
		cfg.Max = 1 << 30
	}
	s, err := Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// crash leaves the directory as a process does that is killed.
func crash(s *Spool) { s.Close() }

func add(t testing.TB, s *Spool, records ...string) {
	t.Helper()
	for _, record := range records {
		if err := s.Append([]byte(record)); err != nil {
			t.Fatal(err)
		}
	}
}

// rest reads all that is left.
func rest(t testing.TB, s *Spool) []string {
	t.Helper()
	var all []string
	for {
		record, err := s.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(record))
	}
}

func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

func numbered(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("record %d", i)
	}
	return all
}

func TestRecordsComeOutInOrderAndOnce(t *testing.T) {
	t.Parallel()
	dir, want := t.TempDir(), numbered(100)
	s := open(t, Config{Dir: dir, Segment: 200})
	add(t, s, want...)
	if got := len(files(t, dir)); got < 5 {
		t.Errorf("%d segments, want several", got)
	}
	if diff := cmp.Diff(want, rest(t, s)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	s.Done()
	add(t, s, "one more")
	if diff := cmp.Diff([]string{"one more"}, rest(t, s)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	s.Done()
	if left := files(t, dir); len(left) != 0 || s.Bytes() != 0 {
		t.Errorf("%d bytes are left in %v, want none", s.Bytes(), left)
	}
}

// What is not done with is found by the next process, also when it was read.
func TestRecordsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	dir, want := t.TempDir(), numbered(10)
	s := open(t, Config{Dir: dir, Segment: 64})
	add(t, s, want[:6]...)
	for range 2 {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}
	crash(s)
	s = open(t, Config{Dir: dir, Segment: 64})
	add(t, s, want[6:]...)
	<-s.Filled()
	if diff := cmp.Diff(want, rest(t, s)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// One goroutine appends while another reads.
func TestReadingKeepsUpWithAppending(t *testing.T) {
	t.Parallel()
	s, want := open(t, Config{Dir: t.TempDir(), Segment: 300}), numbered(300)
	var appending sync.WaitGroup
	appending.Go(func() { add(t, s, want...) })
	var got []string
	for len(got) < len(want) {
		<-s.Filled()
		got = append(got, rest(t, s)...)
		s.Done()
	}
	appending.Wait()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestTheSpoolIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir(), Max: 1000})
	kept := 0
	record := bytes.Repeat([]byte("x"), 50)
	for ; kept < 100; kept++ {
		if err := s.Append(record); errors.Is(err, ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if size := s.Bytes(); size > 1000 || size < 800 {
		t.Errorf("%d bytes are kept, want nearly 1000", size)
	}
	if got := len(rest(t, s)); got != kept {
		t.Errorf("%d records came out of %d", got, kept)
	}
	s.Done()
	add(t, s, "room again")
}

func TestADirectoryHasOneOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, Config{Dir: dir})
	if _, err := Open(Config{Dir: dir, Max: 1}, slog.Default()); !errors.Is(err, ErrInUse) {
		t.Fatalf("a second owner got %v, want ErrInUse", err)
	}
	first.Close()
	open(t, Config{Dir: dir})
}

func TestOthersMayNotReadTheSpool(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "spool")
	s := open(t, Config{Dir: dir})
	add(t, s, "x")
	modes := map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "lock"): 0o600, s.path(0): 0o600}
	for path, want := range modes {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

// Damage costs what is damaged. A torn end goes with its segment, anything else
// is kept for people.
func TestDamageCostsOnlyWhatIsDamaged(t *testing.T) {
	t.Parallel()
	frame := func(record string) []byte { return appendFrame(nil, []byte(record)) }
	first := slices.Concat([]byte(header), frame("a"), frame("b"), frame("c"))
	b := len(header) + len(frame("a")) // where b begins
	edit := func(at int, to byte) []byte {
		edited := slices.Clone(first)
		edited[at] = to
		return edited
	}
	tests := map[string]struct {
		first   []byte
		want    string
		damages []Damage
		aside   bool
	}{
		"whole":                     {first, "a b c d", nil, false},
		"empty file":                {nil, "d", nil, false},
		"half a header":             {first[:5], "d", []Damage{Torn}, false},
		"a header alone":            {first[:len(header)], "d", nil, false},
		"torn in the length":        {first[:len(first)-8], "a b d", []Damage{Torn}, false},
		"torn in the record":        {first[:len(first)-1], "a b d", []Damage{Torn}, false},
		"blank end":                 {slices.Concat(first, make([]byte, 40)), "a b c d", []Damage{Torn}, false},
		"short blank end":           {slices.Concat(first, make([]byte, 2)), "a b c d", []Damage{Torn}, false},
		"a bit of b":                {edit(b+frameHeader, 'x'), "a c d", []Damage{Corrupt}, true},
		"the checksum of b":         {edit(b+8, first[b+8]+1), "a c d", []Damage{Corrupt}, true},
		"b longer than the segment": {edit(b+5, 1), "a c d", []Damage{Corrupt}, true},
		"b longer than any":         {edit(b+7, 0xff), "a c d", []Damage{Corrupt}, true},
		"the mark of b":             {edit(b, 0), "a c d", []Damage{Corrupt}, true},
		"a bit of c":                {edit(len(first)-1, 'x'), "a b d", []Damage{Corrupt}, true},
		"of another version":        {[]byte("breakwater spool 2\nand more"), "d", []Damage{Corrupt}, true},
		"something else":            {[]byte(strings.Repeat("no spool at all ", 10)), "d", []Damage{Corrupt}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for number, content := range [][]byte{tt.first, slices.Concat([]byte(header), frame("d"))} {
				if err := os.WriteFile(filepath.Join(dir, segmentName(uint64(number))), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var damages []Damage
			s := open(t, Config{Dir: dir, Damaged: func(d Damage) { damages = append(damages, d) }})
			if got := strings.Join(rest(t, s), " "); got != tt.want {
				t.Errorf("records %q, want %q", got, tt.want)
			}
			if diff := cmp.Diff(tt.damages, damages); diff != "" {
				t.Errorf("damages (-want +got):\n%s", diff)
			}
			s.Done()
			var want []string
			if tt.aside {
				want = []string{segmentName(0) + suffixAside}
			}
			if diff := cmp.Diff(want, files(t, dir)); diff != "" {
				t.Errorf("files left (-want +got):\n%s", diff)
			}
			crash(s)
			if got := rest(t, open(t, Config{Dir: dir})); len(got) != 0 {
				t.Errorf("after another start: %q, want nothing", got)
			}
		})
	}
}

// A record that nobody understands is kept for people.
func TestARejectedRecordIsSetAside(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	add(t, s, "a", "b")
	for range 2 {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}
	s.Reject(errors.New("what is a b"))
	rest(t, s)
	s.Done()
	if diff := cmp.Diff([]string{segmentName(0) + suffixAside}, files(t, s.Dir())); diff != "" {
		t.Errorf("files left (-want +got):\n%s", diff)
	}
}

// A segment that somebody has taken away is no reason to stop.
func TestASegmentThatIsGoneIsPassedOver(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir(), Segment: 1})
	add(t, s, "a", "b", "c")
	if err := os.Remove(s.path(1)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "c"}, rest(t, s)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	s.Done()
}

// A file that this process cannot read keeps nothing waiting that comes after it.
func TestASegmentThatCannotBeReadIsSetAside(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(path string) error{
		"it is a directory":  func(path string) error { return os.Mkdir(path, 0o700) },
		"it is its own link": func(path string) error { return os.Symlink(path, path) },
		"it is larger than any segment": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(header), 0o600), os.Truncate(path, largestFile+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, damaged := t.TempDir(), 0
			if err := plant(filepath.Join(dir, segmentName(0))); err != nil {
				t.Fatal(err)
			}
			s := open(t, Config{Dir: dir, Damaged: func(Damage) { damaged++ }})
			add(t, s, "a")
			if diff := cmp.Diff([]string{"a"}, rest(t, s)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			s.Done()
			if diff := cmp.Diff([]string{segmentName(0) + suffixAside}, files(t, dir)); diff != "" || damaged != 1 || s.Bytes() != 0 {
				t.Errorf("damage seen %d times, want once; %d bytes; files left (-want +got):\n%s", damaged, s.Bytes(), diff)
			}
		})
	}
}

// The largest record there may be is in a segment that can be read.
func TestTheLargestRecordIsKept(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	record := strings.Repeat("x", MaxRecord)
	add(t, s, "a", record)
	if got := rest(t, s); len(got) != 2 || got[1] != record {
		t.Errorf("%d records, want the largest among 2", len(got))
	}
}

// A disk that fails costs the record that it was given, and no other.
func TestAFailedWriteLeavesTheSpoolWhole(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	add(t, s, "a")
	whole := s.open.file
	broken, err := os.Open(s.path(0)) // cannot be written to
	if err != nil {
		t.Fatal(err)
	}
	s.open.file = broken
	if err := s.Append([]byte("b")); err == nil {
		t.Error("a record that could not be written counts as kept")
	}
	whole.Close()
	add(t, s, "c")
	if diff := cmp.Diff([]string{"a", "c"}, rest(t, s)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestADirectoryThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: filepath.Join(file, "spool"), Max: 1}, slog.Default()); err == nil || errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{4 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s := open(b, Config{Dir: b.TempDir(), Max: 1 << 40})
			record := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Append(record); err != nil {
					b.Fatal(err)
				}
				if s.Bytes() > 1<<28 {
					b.StopTimer()
					rest(b, s)
					s.Done()
					b.StartTimer()
				}
			}
		})
	}
}
