// Package spool keeps records on disk until somebody else has them. Records go
// in at one end, each durable before Append returns, and come out at the other,
// oldest first; a file is removed only when all that it holds is done with. What
// a crash or a bad disk leaves behind is stepped over, never stumbled on.
//
// It must not know what a record says.
package spool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

var (
	// ErrInUse says that another process has the directory.
	ErrInUse = errors.New("the spool is in use")
	// ErrFull says that a record would make the spool larger than it may be.
	ErrFull = errors.New("the spool is full")
)

// Damage is what a segment was found with.
type Damage string

// The kinds of damage.
const (
	Torn    Damage = "torn"    // the last record was being written when the process ended
	Corrupt Damage = "corrupt" // what was written once cannot be read any more, or is gone
)

// Damages lists them.
func Damages() []Damage { return []Damage{Torn, Corrupt} }

// Config says where a spool is and how large it may be.
type Config struct {
	// Dir is made if it is not there, for this user only.
	Dir string
	// Max is how many bytes all segments may have together.
	Max int64
	// Segment is how large one file grows; zero: as is good for Max.
	Segment int64
	// Damaged is told of every damage that is found, by the goroutine that finds
	// it. May be nil.
	Damaged func(Damage)
}

// largestSegment is what one file holds by itself: small enough to be read at
// once and to be given back soon.
const largestSegment = 8 << 20

// largestFile is what it may have with one record that is larger than that.
const largestFile = int64(len(header) + frameHeader + MaxRecord)

// Spool is a queue of records in the segments of a directory. One goroutine may
// append and another read; Bytes may be asked by anybody.
type Spool struct {
	cfg    Config
	log    *slog.Logger
	filled chan struct{}

	open *segment // whose file is open; the appender's own

	// The reader's own.
	passed  int // segments in front that are wholly read
	offset  int64
	unread  []byte // of the segment in hand, from offset on
	damaged map[*segment]bool

	owning sync.Mutex // held while the directory is taken again; before mu
	lock   *lock

	mu       sync.Mutex
	segments []*segment // oldest first
	active   *segment   // the last of them, while it may grow
	writing  bool       // a record is on its way to active
	bytes    int64
	next     uint64 // number of the next segment
}

// segment is one file. All of it is guarded by mu.
type segment struct {
	number uint64
	size   int64       // of what is durable
	info   os.FileInfo // tells the file from another of its name
	file   *os.File    // while it is open: what is in it can be read though its name is gone
	taken  bool        // the reader has some of it
	lost   bool        // it was gone before the reader had any of it
}

// Open takes a directory for this process, with what is in it. Returns ErrInUse
// if another one has it.
func Open(cfg Config, log *slog.Logger) (*Spool, error) {
	if cfg.Segment == 0 {
		cfg.Segment = min(largestSegment, max(1, cfg.Max/4))
	}
	if cfg.Damaged == nil {
		cfg.Damaged = func(Damage) {}
	}
	l, err := take(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Spool{cfg: cfg, log: log, lock: l, filled: make(chan struct{}, 1), damaged: map[*segment]bool{}}
	if err := s.find(); err != nil {
		l.release()
		return nil, err
	}
	return s, nil
}

// take makes a directory if it is not there, and this process its owner.
func take(dir string) (*lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the spool's directory: %w", err)
	}
	return acquire(filepath.Join(dir, "lock"))
}

// find lists the segments that are there. Names are of one length, so they come
// in order.
func (s *Spool) find() error {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("list the spool's segments: %w", err)
	}
	for _, entry := range entries {
		number, aside, ok := parseName(entry.Name())
		if !ok {
			continue
		}
		s.next = max(s.next, number+1)
		if aside {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return fmt.Errorf("look at the spool's segment %s: %w", entry.Name(), err)
		}
		s.segments = append(s.segments, &segment{number: number, size: info.Size(), info: info})
		s.bytes += info.Size()
	}
	if len(s.segments) > 0 {
		s.filled <- struct{}{}
	}
	return nil
}

// Filled receives after records have come, one value for any number of them. It
// is filled at once when Open has found some.
func (s *Spool) Filled() <-chan struct{} { return s.filled }

// Bytes returns what the records take that are not done with.
func (s *Spool) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Max returns what they may take.
func (s *Spool) Max() int64 { return s.cfg.Max }

// Dir returns where they are.
func (s *Spool) Dir() string { return s.cfg.Dir }

// Close leaves the directory to others. What is not done with stays in it. It
// must be called when nobody appends or reads any more.
func (s *Spool) Close() error {
	err := errors.Join(s.leave(), s.closeFile())
	s.lock.release()
	return err
}

// leave sees to it that the next process finds what is only in an open file.
func (s *Spool) leave() error {
	if s.open == nil || !slices.Contains(s.segments, s.open) || s.inPlace(s.open) {
		return nil
	}
	if err := s.own(); err != nil {
		return err
	}
	return s.rescue(s.open)
}

func (s *Spool) closeFile() error {
	if s.open == nil {
		return nil
	}
	s.mu.Lock()
	file := s.open.file
	s.open.file = nil
	s.mu.Unlock()
	s.open = nil
	return file.Close()
}

func (s *Spool) path(number uint64) string {
	return filepath.Join(s.cfg.Dir, segmentName(number))
}

func (s *Spool) pathOf(seg *segment) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.path(seg.number)
}
