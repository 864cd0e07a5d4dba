package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// put writes a file, making its directory. It is empty for a moment.
func put(t *testing.T, path, text string) {
	t.Helper()
	ok(t, os.MkdirAll(filepath.Dir(path), 0o755))
	ok(t, os.WriteFile(path, []byte(text), 0o644))
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// swap puts a file in the place of another, or of none, in one step: a machine that
// is busy in the middle makes no two changes of it.
func swap(t *testing.T, path, text string) {
	t.Helper()
	elsewhere := filepath.Join(t.TempDir(), "new")
	put(t, elsewhere, text)
	ok(t, os.Rename(elsewhere, path))
}

// overwrite writes into a file as much as it held, in one step too.
func overwrite(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	ok(t, err)
	_, err = f.WriteAt([]byte(text), 0)
	ok(t, err)
	ok(t, f.Close())
}

// watching gives a file that is gone longer than a machine may be busy before it
// is there again, and looks at nothing without being called.
func watching(t *testing.T, path string) *Watcher {
	t.Helper()
	return watchingEvery(t, path, time.Hour)
}

func watchingEvery(t *testing.T, path string, every time.Duration) *Watcher {
	t.Helper()
	w, err := watch(path, testMissFor, every)
	ok(t, err)
	t.Cleanup(w.Stop)
	return w
}

const testMissFor = 3 * missFor

func awaitChange(t *testing.T, w *Watcher) {
	t.Helper()
	select {
	case <-w.Changes():
	case <-time.After(time.Minute):
		t.Fatal("the change was not told")
	}
}

func awaitSilence(t *testing.T, w *Watcher, d time.Duration) {
	t.Helper()
	select {
	case <-w.Changes():
		t.Fatal("a change was told, and the file is as it was")
	case <-time.After(d):
	}
}

func TestEveryWayToChangeAFileIsSeen(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, dir, path string){
		"written in place": func(t *testing.T, _, path string) { overwrite(t, path, "two") },
		"replaced by rename": func(t *testing.T, dir, path string) {
			put(t, filepath.Join(dir, "new"), "one")
			ok(t, os.Rename(filepath.Join(dir, "new"), path))
		},
		"removed and made again": func(t *testing.T, _, path string) {
			elsewhere := filepath.Join(t.TempDir(), "new")
			put(t, elsewhere, "two")
			ok(t, os.Remove(path))
			ok(t, os.Link(elsewhere, path))
		},
		"removed for good": func(t *testing.T, _, path string) { ok(t, os.Remove(path)) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "breakwater.yaml")
			put(t, path, "one")
			w := watching(t, path)
			for range 2 { // the watch survives what it has seen
				change(t, dir, path)
				awaitChange(t, w)
				swap(t, path, "back again")
				awaitChange(t, w)
			}
			awaitSilence(t, w, 2*settleFor)
		})
	}
}

// A mounted ConfigMap is a link to a link: ..data leads to a directory of each
// version, and is replaced by a rename.
func TestASwappedLinkIsSeen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "breakwater.yaml")
	put(t, filepath.Join(dir, "..v1", "breakwater.yaml"), "one")
	ok(t, os.Symlink("..v1", filepath.Join(dir, "..data")))
	ok(t, os.Symlink(filepath.Join("..data", "breakwater.yaml"), path))
	w := watching(t, path)

	for _, version := range []string{"..v2", "..v3"} {
		put(t, filepath.Join(dir, version, "breakwater.yaml"), version)
		ok(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		ok(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		awaitChange(t, w)
	}
	put(t, filepath.Join(dir, "..v3", "breakwater.yaml"), "edited where the links lead")
	awaitChange(t, w)
}

func TestALinkedFileIsSeenWhereItIs(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "real.yaml")
	path := filepath.Join(t.TempDir(), "breakwater.yaml")
	put(t, elsewhere, "one")
	ok(t, os.Symlink(elsewhere, path))
	w := watching(t, path)
	put(t, elsewhere+".new", "two")
	ok(t, os.Rename(elsewhere+".new", elsewhere))
	awaitChange(t, w)
}

// What others write in the same directory neither counts nor keeps a change
// from being told.
func TestOtherFilesInTheDirectoryDoNotMatter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "breakwater.yaml")
	put(t, path, "one")
	w := watching(t, path)
	for i := range 100 {
		put(t, filepath.Join(dir, fmt.Sprintf("log.%d", i%3)), fmt.Sprint(i))
	}
	awaitSilence(t, w, 2*settleFor)

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(settleFor / 10)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case at := <-tick.C:
				_ = os.WriteFile(filepath.Join(dir, "log"), []byte(at.String()), 0o644)
			}
		}
	}()
	put(t, path, "two")
	awaitChange(t, w)
	close(stop)
	<-stopped
}

// A file that is gone for a moment is nobody's mistake.
func TestAShortAbsenceIsNotTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "breakwater.yaml")
	put(t, path, "one")
	w := watching(t, path)
	ok(t, os.Remove(path))
	awaitSilence(t, w, missFor/2)
	swap(t, path, "one")
	awaitChange(t, w)
	awaitSilence(t, w, testMissFor)
}

// A directory that is replaced takes the watch on it along, and the watch on the
// new one may still be on its way; the file is found at the next look.
func TestAFileInAReplacedDirectoryIsFoundAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "conf")
	path := filepath.Join(dir, "breakwater.yaml")
	put(t, path, "one")
	w := watchingEvery(t, path, lookEvery)
	ok(t, os.Rename(dir, dir+".old"))
	for _, content := range []string{"two", "three"} {
		put(t, path, content)
		select {
		case <-w.Changes():
		case <-time.After(time.Minute):
			t.Fatalf("%s in the new directory was not found", content)
		}
	}
}

func TestWatchSaysThatThereIsNoDirectory(t *testing.T) {
	t.Parallel()
	if w, err := Watch(filepath.Join(t.TempDir(), "none", "breakwater.yaml")); err == nil {
		w.Stop()
		t.Error("a directory that is not there is watched")
	}
}
