package spool

import (
	"fmt"
	"os"
)

// Append keeps a record; when it returns nil the record is on the disk. Returns
// ErrFull if there is no room. After an error nothing of the record is kept that
// Next would return, but after a failure of the disk it may be found by another
// process.
func (s *Spool) Append(record []byte) error {
	if len(record) > MaxRecord {
		return fmt.Errorf("a record of %d bytes is larger than %d", len(record), MaxRecord)
	}
	frame := appendFrame(make([]byte, 0, frameHeader+len(record)), record)
	seg, err := s.begin(int64(len(frame)))
	if err != nil {
		return err
	}
	if err := s.write(seg, frame); err != nil {
		return fmt.Errorf("write to the spool: %w", err)
	}
	select {
	case s.filled <- struct{}{}:
	default:
	}
	return nil
}

// begin finds the segment for n more bytes, or makes one, and keeps the reader
// from closing it until write.
func (s *Spool) begin(n int64) (*segment, error) {
	if err := s.own(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.bytes+n+int64(len(header)) > s.cfg.Max {
		s.mu.Unlock()
		return nil, ErrFull
	}
	seg := s.active
	s.writing = seg != nil
	s.mu.Unlock()
	if seg != nil {
		if err := s.rescue(seg); err != nil {
			s.pause()
			return nil, err
		}
		if seg.size+n <= s.cfg.Segment {
			return seg, nil
		}
	}
	return s.another()
}

// pause lets the reader have a segment that is not written to after all.
func (s *Spool) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
}

// another begins a new segment.
func (s *Spool) another() (*segment, error) {
	s.mu.Lock()
	s.active, s.writing = nil, false
	number := s.next
	s.next++
	s.mu.Unlock()

	_ = s.closeFile() // all that is in it is durable
	file, info, err := s.create(number, []byte(header))
	if err != nil {
		return nil, fmt.Errorf("make a segment of the spool: %w", err)
	}
	seg := &segment{number: number, size: int64(len(header)), info: info, file: file}
	s.open = seg
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = append(s.segments, seg)
	s.bytes += seg.size
	s.active, s.writing = seg, true
	return seg, nil
}

// create makes a segment's file, whose name and content are durable when it
// returns.
func (s *Spool) create(number uint64, content []byte) (*os.File, os.FileInfo, error) {
	file, err := os.OpenFile(s.path(number), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, nil, err
	}
	info, err := fillFile(file, content)
	if err == nil {
		err = syncDir(s.cfg.Dir)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(s.path(number))
		return nil, nil, err
	}
	return file, info, nil
}

func fillFile(file *os.File, content []byte) (os.FileInfo, error) {
	if _, err := file.Write(content); err != nil {
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, err
	}
	return file.Stat()
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// write puts a frame at the end of the segment. One that does not get there is
// cut off again; a segment of which nobody knows what is durable grows no more.
func (s *Spool) write(seg *segment, frame []byte) error {
	_, err := seg.file.WriteAt(frame, seg.size)
	cut := err != nil && seg.file.Truncate(seg.size) == nil
	if err == nil {
		err = seg.file.Sync()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
	switch {
	case err == nil:
		seg.size += int64(len(frame))
		s.bytes += int64(len(frame))
	case !cut:
		s.active = nil
	}
	return err
}
