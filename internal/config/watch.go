package config

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settleFor is how long a file must stay as it is before its change is
	// told, so that one that is written in pieces is read when it is whole.
	settleFor = 200 * time.Millisecond
	// missFor is the same for a file that is gone: most come back at once.
	missFor = 2 * time.Second
	// lookEvery is how often the file is looked at without being called, since
	// network file systems call nobody.
	lookEvery = 10 * time.Second
	// stopWithin is how long Stop waits for a look at a file system that may be
	// away; one that is held longer is left to end by itself.
	stopWithin = time.Second
	// maxLinks is how many links may lead to the file.
	maxLinks = 40
)

// Watcher tells when a file has changed: written in place, replaced by a
// rename, reached by other links (as Kubernetes updates a mounted ConfigMap), or
// gone. It watches the directories on the way, because a file that is replaced
// takes the watch on itself with it.
type Watcher struct {
	path    string
	miss    time.Duration // missFor
	every   time.Duration // lookEvery
	notify  *fsnotify.Watcher
	changes chan struct{}

	stop     sync.Once
	stopping chan struct{}
	done     chan struct{}
}

// Watch begins to watch a file, which may be missing still, until Stop.
func Watch(path string) (*Watcher, error) { return watch(path, missFor, lookEvery) }

func watch(path string, miss, every time.Duration) (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	w := &Watcher{
		path: path, miss: miss, every: every, notify: notify, changes: make(chan struct{}, 1),
		stopping: make(chan struct{}), done: make(chan struct{}),
	}
	if err := notify.Add(filepath.Dir(path)); err != nil {
		_ = notify.Close()
		return nil, fmt.Errorf("watch the directory of %s: %w", path, err)
	}
	w.follow()
	go w.watch(w.look())
	return w, nil
}

// Changes receives after each change; changes that nobody has received yet are
// one.
func (w *Watcher) Changes() <-chan struct{} { return w.changes }

// Stop ends the watching. It may be called twice.
func (w *Watcher) Stop() {
	w.stop.Do(func() {
		close(w.stopping)
		late := time.NewTimer(stopWithin)
		defer late.Stop()
		select {
		case <-w.done:
		case <-late.C:
		}
		_ = w.notify.Close()
	})
}

func (w *Watcher) watch(seen os.FileInfo) {
	defer close(w.done)
	again := time.NewTicker(w.every)
	defer again.Stop()
	settled := time.NewTimer(settleFor)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case <-w.stopping:
			return
		case <-settled.C:
			w.tell()
			continue
		case <-w.notify.Events:
		case <-w.notify.Errors: // calls were lost
		case <-again.C:
			w.follow()
		}
		// Others write in the same directory, so only the file itself counts.
		now := w.look()
		if same(seen, now) {
			continue
		}
		seen = now
		w.follow()
		if now == nil {
			settled.Reset(w.miss)
			continue
		}
		settled.Reset(settleFor)
	}
}

func (w *Watcher) tell() {
	select {
	case w.changes <- struct{}{}:
	default:
	}
}

// look returns what stands at the end of the links, or nil.
func (w *Watcher) look() os.FileInfo {
	info, err := os.Stat(w.path)
	if err != nil {
		return nil
	}
	return info
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// follow watches the directory of every link that leads to the file. One that
// cannot be watched is tried again at the next look.
func (w *Watcher) follow() {
	at := w.path
	for range maxLinks {
		_ = w.notify.Add(filepath.Dir(at))
		next, err := os.Readlink(at)
		if err != nil {
			return // the file itself, or nothing
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(at), next)
		}
		at = next
	}
}
