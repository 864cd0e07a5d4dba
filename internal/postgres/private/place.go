package private

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxDataDir keeps file names inside the 1,024 bytes for which Postgres has
// room.
const maxDataDir = 900

// place names the files of one private server.
type place struct{ root string }

// otherDir ends what is said of a directory that cannot hold the data.
const otherDir = "set database.data_dir to a directory that this user may write"

// openPlace makes the data directory if needed and resolves it, so that every
// spelling of one directory means one server.
func openPlace(dataDir string) (place, error) {
	root, err := filepath.Abs(dataDir)
	if err != nil {
		return place{}, fmt.Errorf("resolve the data directory: %w", err)
	}
	// Others may pass through but not look around: root's server runs as
	// another user, and its files inside are closed to everybody else.
	if err := os.MkdirAll(root, 0o711); err != nil {
		return place{}, fmt.Errorf("make the data directory: %w; %s", err, otherDir)
	}
	root, err = filepath.EvalSymlinks(root)
	if err != nil {
		return place{}, fmt.Errorf("resolve the data directory: %w; %s", err, otherDir)
	}
	if len(root) > maxDataDir {
		return place{}, fmt.Errorf("data directory %s: the path is longer than the %d bytes that Postgres can handle; set database.data_dir to a shorter one", root, maxDataDir)
	}
	return place{root: root}, nil
}

// findPlace is openPlace for those who make nothing. Returns ErrNoDatabase when
// no server was ever started there.
func findPlace(dataDir string) error {
	root, err := filepath.Abs(dataDir)
	if err != nil {
		return fmt.Errorf("resolve the data directory: %w", err)
	}
	p := place{root: root}
	// The first start takes the lock before there is anything else.
	for _, trace := range []string{p.cluster(), p.lockFile()} {
		_, err := os.Stat(trace)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return fmt.Errorf("look for the private database: %w; %s", err, otherDir)
		}
	}
	return p.empty()
}

// empty says that there is no database here.
func (p place) empty() error { return fmt.Errorf("%w in %s", ErrNoDatabase, p.root) }

func (p place) cluster() string  { return filepath.Join(p.root, "postgres") }
func (p place) unborn() string   { return filepath.Join(p.root, "postgres.new") }
func (p place) lockFile() string { return filepath.Join(p.root, "postgres.lock") }
func (p place) pidFile() string  { return filepath.Join(p.cluster(), "postmaster.pid") }

// mark is a short name that no other place has. It names the directory of the
// socket and the server's cluster, which Postgres shows in the command line of
// every process of the server.
func (p place) mark() string {
	return fmt.Sprintf("breakwater-%.8x", sha256.Sum256([]byte(p.root)))
}
