package main

import (
	"slices"
	"testing"
	"time"
)

func TestReadStat(t *testing.T) {
	t.Parallel()
	fields, err := splitStat("42 (a) b) c) S 7 42 42 0 -1 4194560 100 200 0 0 150 25 30 5 20 0 9 0 100 0 0\n")
	if err != nil {
		t.Fatal(err)
	}
	if fields[ppid] != "7" {
		t.Errorf("parent %s, want 7", fields[ppid])
	}
	got, err := ticks(fields, utime, stime, cutime, cstime)
	if want := 2100 * time.Millisecond; err != nil || got != want {
		t.Errorf("CPU time %s, %v, want %s", got, err, want)
	}
	if _, err := splitStat("no such thing"); err == nil {
		t.Error("no error for what is no line of /proc")
	}
}

func TestReadMemory(t *testing.T) {
	t.Parallel()
	got, err := readMemory("Name:\tbench\nVmHWM:\t   61440 kB\nVmRSS:\t   51200 kB\nThreads:\t9\n")
	if want := (memory{resident: 50 << 20, peak: 60 << 20}); err != nil || got != want {
		t.Errorf("memory %+v, %v, want %+v", got, err, want)
	}
}

func TestDescendants(t *testing.T) {
	t.Parallel()
	got := descendants(map[int]int{2: 1, 3: 2, 4: 3, 5: 1, 6: 9}, 2)
	slices.Sort(got)
	if want := []int{2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("descendants %v, want %v", got, want)
	}
}
