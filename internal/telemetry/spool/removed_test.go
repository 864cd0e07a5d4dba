package spool

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// watched opens a spool that counts damage and keeps its log.
func watched(t *testing.T, cfg Config) (s *Spool, damaged *int, log *strings.Builder) {
	t.Helper()
	damaged, log = new(int), new(strings.Builder)
	cfg.Max, cfg.Damaged = 1<<20, func(Damage) { *damaged++ }
	s, err := Open(cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, damaged, log
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// takings are ways in which people and programs take away what a spool lives in.
var takings = map[string]func(dir string) error{
	"the directory is removed": os.RemoveAll,
	"the directory is moved":   func(dir string) error { return os.Rename(dir, dir+".old") },
	"an empty directory takes its place": func(dir string) error {
		return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700))
	},
	"another spool takes its place": func(dir string) error {
		return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700),
			os.WriteFile(filepath.Join(dir, segmentName(0)), []byte(header), 0o600))
	},
	"the segment is removed": func(dir string) error { return os.Remove(filepath.Join(dir, segmentName(0))) },
	"the segment is moved": func(dir string) error {
		return os.Rename(filepath.Join(dir, segmentName(0)), filepath.Join(dir, "elsewhere"))
	},
	"the lock is removed": func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
}

// What is in the segment that grows is not lost with its name: the next record
// brings it back, to the reader as to the next process, and nobody else may have
// the directory.
func TestAnAppendBringsBackWhatWasTakenAway(t *testing.T) {
	t.Parallel()
	for name, takeAway := range takings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "spool")
			s, damaged, log := watched(t, Config{Dir: dir})
			add(t, s, "a", "b")
			must(t, takeAway(dir))
			add(t, s, "c")

			if _, err := Open(Config{Dir: dir, Max: 1}, slog.Default()); !errors.Is(err, ErrInUse) {
				t.Errorf("a second owner got %v, want ErrInUse", err)
			}
			if *damaged != 0 || !strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("damage seen %d times, want never, and an error in the log:\n%s", *damaged, log)
			}
			crash(s)
			if diff := cmp.Diff([]string{"a", "b", "c"}, rest(t, open(t, Config{Dir: dir}))); diff != "" {
				t.Errorf("records of the next process (-want +got):\n%s", diff)
			}
		})
	}
}

// The reader goes on where it was, and counts what it is done with.
func TestTheReaderGoesOnWhenTheSegmentIsTakenAway(t *testing.T) {
	t.Parallel()
	for name, takeAway := range takings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "spool")
			s, damaged, log := watched(t, Config{Dir: dir})
			add(t, s, "a", "b")
			if record, err := s.Next(); err != nil || string(record) != "a" {
				t.Fatalf("got %q, %v", record, err)
			}
			must(t, takeAway(dir))
			add(t, s, "c")
			if diff := cmp.Diff([]string{"b", "c"}, rest(t, s)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			s.Done()
			if s.Bytes() != 0 || *damaged != 0 {
				t.Errorf("%d bytes are left and damage was seen %d times, want none:\n%s", s.Bytes(), *damaged, log)
			}
		})
	}
}

// Nothing has to be appended for the open segment to be read, or left to the
// next process.
func TestTheOpenSegmentNeedsNoName(t *testing.T) {
	t.Parallel()
	for name, takeAway := range takings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "spool")
			s, damaged, log := watched(t, Config{Dir: dir})
			add(t, s, "a", "b")
			must(t, takeAway(dir))
			if diff := cmp.Diff([]string{"a", "b"}, rest(t, s)); diff != "" || *damaged != 0 {
				t.Errorf("damage seen %d times; records (-want +got):\n%s%s", *damaged, diff, log)
			}
			crash(s)
			if diff := cmp.Diff([]string{"a", "b"}, rest(t, open(t, Config{Dir: dir}))); diff != "" {
				t.Errorf("records of the next process (-want +got):\n%s", diff)
			}
		})
	}
}

// Segments that are closed are lost with their names. That is counted once, and
// what they took is free again.
func TestClosedSegmentsThatAreTakenAwayAreCounted(t *testing.T) {
	t.Parallel()
	for name, finder := range map[string]func(*testing.T, *Spool){
		"found by the appender": func(t *testing.T, s *Spool) { add(t, s, "d") },
		"found by the reader":   func(*testing.T, *Spool) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "spool")
			s, damaged, log := watched(t, Config{Dir: dir, Segment: 1})
			add(t, s, "a", "b", "c")
			one := s.Bytes() / 3
			must(t, os.RemoveAll(dir))
			want := []string{"c"}
			if finder(t, s); strings.Contains(name, "appender") {
				want = append(want, "d")
				if s.Bytes() != 2*one || *damaged != 2 {
					t.Errorf("%d bytes are kept, want %d; damage seen %d times, want 2", s.Bytes(), 2*one, *damaged)
				}
			}
			if diff := cmp.Diff(want, rest(t, s)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			s.Done()
			if s.Bytes() != 0 || *damaged != 2 || !strings.Contains(log.String(), "their records are lost") {
				t.Errorf("%d bytes are left, want none; damage seen %d times, want 2:\n%s", s.Bytes(), *damaged, log)
			}
		})
	}
}

// Where the directory cannot be made again nothing counts as kept, until it can.
func TestADirectoryThatCannotBeMadeAgainIsAnError(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	s, _, _ := watched(t, Config{Dir: dir})
	add(t, s, "a")
	must(t, os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
	if err := s.Append([]byte("b")); err == nil {
		t.Error("a record counts as kept where there is no directory")
	}
	must(t, os.Remove(dir))
	add(t, s, "c")
	crash(s)
	if diff := cmp.Diff([]string{"a", "c"}, rest(t, open(t, Config{Dir: dir}))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// Who has lost the directory to another process writes and removes nothing in it.
func TestADirectoryThatAnotherHasTakenIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, takeAway := range takings {
		if strings.Contains(name, "segment") {
			continue // the lock is there
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "spool")
			first, _, _ := watched(t, Config{Dir: dir})
			add(t, first, "a")
			must(t, takeAway(dir))
			second := open(t, Config{Dir: dir})
			add(t, second, "b")
			before := files(t, dir)

			if err := first.Append([]byte("c")); !errors.Is(err, ErrInUse) {
				t.Errorf("got %v, want ErrInUse", err)
			}
			if _, err := first.Next(); err != nil {
				t.Error(err)
			}
			first.Done()
			first.Close()
			if diff := cmp.Diff(before, files(t, dir)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
			if got := rest(t, second); len(got) == 0 || got[len(got)-1] != "b" {
				t.Errorf("the second has %q, want its own record", got)
			}
		})
	}
}
