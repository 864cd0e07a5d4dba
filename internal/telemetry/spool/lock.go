package spool

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock makes one process the owner of a spool. The kernel drops it with the
// process. The file stays: removing it would let two processes lock two files of
// one name.
type lock struct {
	file *os.File
	path string
	info os.FileInfo
}

func acquire(path string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the spool's lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return confirm(file, path)
	}
	file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("lock %s: %w", path, ErrInUse)
	}
	return nil, fmt.Errorf("lock the spool: %w", err)
}

// confirm makes sure that the file that is locked is the one that others find.
func confirm(file *os.File, path string) (*lock, error) {
	info, err := file.Stat()
	l := &lock{file, path, info}
	if err == nil && !l.holds() {
		err = errors.New("its file was taken away meanwhile")
	}
	if err != nil {
		l.release()
		return nil, fmt.Errorf("lock the spool: %w", err)
	}
	return l, nil
}

// holds is false when others would lock another file: this one was removed, or
// its directory was, or another one is in its place.
func (l *lock) holds() bool { return isAt(l.path, l.info) }

// isAt reports whether a path leads to a certain file.
func isAt(path string, info os.FileInfo) bool {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(now, info)
}

// release drops the lock. Closing the file alone would not do: a child that is
// just being started has it open as well for a moment.
func (l *lock) release() {
	_ = unix.Flock(int(l.file.Fd()), unix.LOCK_UN)
	_ = l.file.Close()
}
