package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// errLost is the end of a segment that somebody took away, of which the log has
// told already.
var errLost = errors.New("the segment was taken away")

// own makes sure that the directory is still there and still this process's. One
// that was removed or replaced is made and locked anew, and so is the lock alone.
// Returns ErrInUse if another process has come first.
func (s *Spool) own() error {
	s.owning.Lock()
	defer s.owning.Unlock()
	if s.lock.holds() {
		return nil
	}
	l, err := take(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("the spool's directory or its lock was taken away: %w", err)
	}
	s.lock.release()
	s.lock = l
	s.log.Error("the spool's directory or its lock was taken away while the gateway ran, it is made anew", "dir", s.cfg.Dir)
	return s.reckon()
}

// reckon finds out what was lost with the directory. What is in a file that is
// open, or with the reader, is not.
func (s *Spool) reckon() error {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("list the spool's segments: %w", err)
	}
	there := map[uint64]os.FileInfo{}
	next := uint64(0)
	for _, entry := range entries {
		number, aside, ok := parseName(entry.Name())
		if !ok {
			continue
		}
		next = max(next, number+1) // also above those of another directory
		if info, err := entry.Info(); err == nil && !aside {
			there[number] = info
		}
	}
	gone, size := s.strike(there, next)
	for range gone {
		s.cfg.Damaged(Corrupt)
	}
	if gone > 0 {
		s.log.Error("spool segments were taken away, their records are lost", "dir", s.cfg.Dir, "segments", gone, "bytes", size)
	}
	return nil
}

// strike takes what is lost off the segments.
func (s *Spool) strike(there map[uint64]os.FileInfo, next uint64) (gone int, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = max(s.next, next)
	for _, seg := range s.segments {
		info, found := there[seg.number]
		if seg.lost || seg.taken || seg.file != nil || found && os.SameFile(info, seg.info) {
			continue
		}
		seg.lost = true
		s.bytes -= seg.size
		gone, size = gone+1, size+seg.size
	}
	return gone, size
}

// inPlace reports whether a segment is where the next process will look for it.
func (s *Spool) inPlace(seg *segment) bool {
	s.mu.Lock()
	path, info := s.path(seg.number), seg.info
	s.mu.Unlock()
	return isAt(path, info)
}

// rescue writes an open segment that was taken away into another file. The reader
// notices nothing.
func (s *Spool) rescue(seg *segment) error {
	if s.inPlace(seg) {
		return nil
	}
	content := make([]byte, seg.size)
	if _, err := seg.file.ReadAt(content, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read a segment that was taken away: %w", err)
	}
	s.mu.Lock()
	number := s.next
	s.next++
	s.mu.Unlock()
	file, info, err := s.create(number, content)
	if err != nil {
		return fmt.Errorf("save a segment that was taken away: %w", err)
	}
	s.mu.Lock()
	old := seg.file
	seg.number, seg.info, seg.file = number, info, file
	s.mu.Unlock()
	_ = old.Close()
	s.log.Error("a spool segment was taken away while it was in use, its records are saved in another", "segment", s.path(number), "bytes", len(content))
	return nil
}
