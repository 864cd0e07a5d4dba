package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Nobody has the other end of the pipe open, which holds a plain open for ever.
func TestAFileThatCannotBeReadToItsEndIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	ok(t, syscall.Mkfifo(pipe, 0o600))
	link := filepath.Join(dir, "link")
	ok(t, os.Symlink(pipe, link))
	referring := filepath.Join(dir, "breakwater.yaml")
	put(t, referring, "auth: {mode: \"${file:"+pipe+"}\"}\n")

	for _, path := range []string{pipe, link, dir, "/dev/zero", referring} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v, want it refused as no regular file", path, err)
		}
	}
}

// A read that the file system holds ends for whoever asked; it is not waited
// for.
func TestAReadIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		defer close(back)
		began := time.Now()
		_, err := within(readWithin, "breakwater.yaml", func() (*Config, error) {
			<-back
			return Default(), nil
		})
		if !errors.Is(err, errReadTooLong) || !strings.Contains(err.Error(), "breakwater.yaml") {
			t.Errorf("the read ended with %v", err)
		}
		if took := time.Since(began); took != readWithin {
			t.Errorf("it ended after %v, want %v", took, readWithin)
		}
	})
}

func TestStopDoesNotWaitForALookThatIsHeld(t *testing.T) {
	t.Parallel()
	w, err := Watch(filepath.Join(t.TempDir(), "breakwater.yaml"))
	ok(t, err)
	w.Stop() // its own watching has ended; from here on it looks as one that is held
	synctest.Test(t, func(t *testing.T) {
		held := &Watcher{notify: w.notify, stopping: make(chan struct{}), done: make(chan struct{})}
		began := time.Now()
		held.Stop()
		if took := time.Since(began); took != stopWithin {
			t.Errorf("Stop took %v, want %v", took, stopWithin)
		}
	})
}
