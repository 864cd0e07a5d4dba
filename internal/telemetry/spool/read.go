package spool

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Next returns the oldest record that it has not returned yet, or io.EOF when
// there is none for now. Bytes that are no record are passed over and logged.
// Segments that cannot be read are set aside. Any other error may pass.
func (s *Spool) Next() ([]byte, error) {
	for {
		seg, size, ended := s.inHand()
		if seg == nil {
			return nil, io.EOF
		}
		if ended {
			s.pass()
			continue
		}
		if len(s.unread) == 0 {
			if err := s.load(seg, size); err != nil {
				if errors.Is(err, errLost) {
					continue
				}
				if mayPass(err) || errors.Is(err, ErrInUse) {
					return nil, fmt.Errorf("read the spool: %w", err)
				}
				s.spoil(seg, Corrupt, err, size-s.offset)
				s.offset = size
				continue
			}
		}
		if record, ok := s.record(seg); ok {
			return record, nil
		}
	}
}

// Done says that the records that Next has returned are needed no more. Segments
// of which nothing is left are removed; those with damage are set aside. Records
// of a segment that is not read to its end are returned again by another process.
func (s *Spool) Done() {
	if _, _, ended := s.inHand(); ended {
		s.pass()
	}
	s.mu.Lock()
	over := s.segments[:s.passed:s.passed]
	s.segments = s.segments[s.passed:]
	for _, seg := range over {
		if !seg.lost {
			s.bytes -= seg.size
		}
	}
	s.mu.Unlock()
	s.passed = 0
	for _, seg := range over {
		s.remove(seg)
	}
}

// Reject says that nobody knows what the record means that Next has returned last.
// Its segment is set aside.
func (s *Spool) Reject(why error) {
	seg, _, _ := s.inHand()
	s.spoil(seg, Corrupt, why, 0)
}

func (s *Spool) remove(seg *segment) {
	damaged := s.damaged[seg]
	delete(s.damaged, seg)
	if !s.inPlace(seg) || errors.Is(s.own(), ErrInUse) {
		return // it is gone, or somebody else's
	}
	path := s.pathOf(seg)
	var err error
	if damaged {
		err = os.Rename(path, path+suffixAside)
	} else {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Error("a spool segment cannot be removed, remove it by hand or it is read again at the next start", "error", err)
	}
}

// inHand returns the segment to read from and how much of it is durable. One
// that is read to its end grows no more: what comes next begins another.
func (s *Spool) inHand() (seg *segment, size int64, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passed == len(s.segments) {
		return nil, 0, false
	}
	seg = s.segments[s.passed]
	if seg.lost && s.offset == 0 {
		return seg, 0, true
	}
	if s.offset < seg.size {
		return seg, seg.size, false
	}
	if seg == s.active {
		if s.writing {
			return nil, 0, false
		}
		s.active = nil
	}
	return seg, seg.size, true
}

// pass goes on to the next segment.
func (s *Spool) pass() {
	s.passed++
	s.offset, s.unread = 0, nil
}

// load reads what is durable of a segment and not read yet.
func (s *Spool) load(seg *segment, size int64) error {
	if size-s.offset > largestFile {
		return fmt.Errorf("%d bytes are more than a segment has", size)
	}
	data := make([]byte, size-s.offset)
	n, err := s.readAt(seg, data)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n < len(data) {
		return fmt.Errorf("%w: its last %d bytes are not there", errShort, len(data)-n)
	}
	s.unread = data
	return nil
}

// readAt reads a segment from the offset on: from the file that the appender has
// open, which is there though its name may be gone, else by its name.
func (s *Spool) readAt(seg *segment, data []byte) (int, error) {
	s.mu.Lock()
	file := seg.file
	seg.taken = seg.taken || file != nil
	s.mu.Unlock()
	if file != nil {
		if n, err := file.ReadAt(data, s.offset); !errors.Is(err, os.ErrClosed) {
			return n, err
		}
	}
	if err := s.own(); errors.Is(err, ErrInUse) {
		return 0, err
	}
	path, info, err := s.claim(seg)
	if err != nil {
		return 0, err
	}
	if now, err := os.Lstat(path); err == nil && !os.SameFile(now, info) {
		return 0, errReplaced
	}
	file, err = os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return file.ReadAt(data, s.offset)
}

// claim notes that the reader sees to a segment from now on, also to what is lost
// of it. Returns errLost if it is too late.
func (s *Spool) claim(seg *segment) (path string, info os.FileInfo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seg.lost {
		return "", nil, errLost
	}
	seg.taken = true
	return s.path(seg.number), seg.info, nil
}

var errReplaced = errors.New("another file is in its place")

var errShort = errors.New("the file has become shorter")

// mayPass reports whether it is the process that cannot read a segment now, and
// not the segment that cannot be read: one must not keep the others waiting.
func mayPass(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// record takes the next record from what was loaded, if there is one, and moves
// on in any case.
func (s *Spool) record(seg *segment) ([]byte, bool) {
	if s.offset == 0 {
		if err := checkHeader(s.unread); err != nil {
			s.lose(seg, err, len(s.unread))
			return nil, false
		}
		s.move(len(header))
		if len(s.unread) == 0 {
			return nil, false
		}
	}
	record, n, err := readFrame(s.unread)
	if err == nil {
		s.move(n)
		return record, true
	}
	lost := resume(s.unread)
	switch {
	case lost > 0:
		err = errCorrupt
	case isBlank(s.unread): // the file had grown, and nothing was written yet
		err = errTorn
		fallthrough
	default:
		lost = len(s.unread)
	}
	s.lose(seg, err, lost)
	return nil, false
}

func (s *Spool) move(n int) {
	s.unread = s.unread[n:]
	s.offset += int64(n)
}

// lose passes over n bytes that are no record.
func (s *Spool) lose(seg *segment, why error, n int) {
	damage := Corrupt
	if errors.Is(why, errTorn) {
		damage = Torn
	}
	s.spoil(seg, damage, why, int64(n))
	s.move(n)
}

// spoil tells of damage. A torn end is nothing that anybody was promised; what
// is corrupt is kept for somebody to look at.
func (s *Spool) spoil(seg *segment, damage Damage, why error, n int64) {
	s.cfg.Damaged(damage)
	at := []any{"segment", s.pathOf(seg), "offset", s.offset, "bytes", n, "error", why}
	if damage == Torn {
		s.log.Warn("spool segment ends in a record that was never finished, it is cut off", at...)
		return
	}
	if errors.Is(why, os.ErrNotExist) || errors.Is(why, errReplaced) {
		s.log.Error("spool segment was taken away, its records are lost", at...)
		return
	}
	s.damaged[seg] = true
	s.log.Error("spool segment is damaged, these bytes are passed over and the file is set aside as .bad", at...)
}
