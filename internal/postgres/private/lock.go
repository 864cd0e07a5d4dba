package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lock makes one process the owner of a server. The kernel drops it with the
// process, so holding it proves that a server still running is an orphan. The
// file stays: removing it would let two processes lock two files of one name.
type lock struct{ file *os.File }

func acquire(path string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("open the private database's lock: %w: run as the user who made it, or set another database.data_dir", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the private database's lock: %w; %s", err, otherDir)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w by process %s (%s): stop it first, or give this one another database.data_dir", ErrInUse, holder(file), path)
		}
		return nil, fmt.Errorf("lock the private database: %w", err)
	}
	l := &lock{file: file}
	if err := l.sign(); err != nil {
		l.release()
		return nil, fmt.Errorf("sign the private database's lock: %w", err)
	}
	return l, nil
}

// sign leaves the owner's process id for the error message of the next.
func (l *lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

func holder(file *os.File) string {
	text, err := io.ReadAll(io.LimitReader(file, 32))
	if err != nil || len(text) == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// release drops the lock. Closing the file alone would not do: a child
// that is just being started has it open as well for a moment.
func (l *lock) release() {
	unix.Flock(int(l.file.Fd()), unix.LOCK_UN)
	l.file.Close()
}
