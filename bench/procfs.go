package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc: USER_HZ is 100 on every architecture
// that Go runs on.
const tick = 10 * time.Millisecond

// cpuTime returns what a process has used of the CPU, user and system.
func cpuTime(pid int) (time.Duration, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	return ticks(fields, utime, stime)
}

// treeCPUTime returns what a process and all its children, those that have
// ended included, have used of the CPU.
func treeCPUTime(pid int) (time.Duration, error) {
	parents, err := parents()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, member := range descendants(parents, pid) {
		fields, err := stat(member)
		if err != nil {
			continue // it has ended: its parent has its time
		}
		t, err := ticks(fields, utime, stime, cutime, cstime)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// parents returns the parent of every process.
func parents() (map[int]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	of := map[int]int{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		if fields, err := stat(pid); err == nil {
			of[pid], _ = strconv.Atoi(fields[ppid])
		}
	}
	return of, nil
}

func descendants(parents map[int]int, root int) []int {
	all := []int{root}
	for i := 0; i < len(all); i++ {
		for pid, parent := range parents {
			if parent == all[i] {
				all = append(all, pid)
			}
		}
	}
	return all
}

// Fields of /proc/PID/stat, counted from the one after the name.
const (
	ppid   = 1
	utime  = 11
	stime  = 12
	cutime = 13
	cstime = 14
)

// stat returns the fields after the name, which may hold anything.
func stat(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	return splitStat(string(text))
}

func splitStat(text string) ([]string, error) {
	end := strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[end+1:])
	if end < 0 || len(fields) <= cstime {
		return nil, fmt.Errorf("%q is not what /proc says of a process", text)
	}
	return fields, nil
}

func ticks(fields []string, which ...int) (time.Duration, error) {
	var sum time.Duration
	for _, i := range which {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// memory is what a process holds, in bytes.
type memory struct{ resident, peak int64 }

func memoryOf(pid int) (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	return readMemory(string(text))
}

func readMemory(status string) (memory, error) {
	var m memory
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &m.resident, "VmHWM": &m.peak}[name]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return memory{}, fmt.Errorf("read %s: %w", name, err)
		}
		*into = kib << 10
	}
	return m, nil
}
