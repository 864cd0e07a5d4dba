package private

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// maxDataDir keeps file names inside the 1,024 bytes for which Postgres has
// room.
const maxDataDir = 900

// place names the files of one private server.
type place struct{ root string }

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
		return place{}, fmt.Errorf("make the data directory: %w", err)
	}
	root, err = filepath.EvalSymlinks(root)
	if err != nil {
		return place{}, fmt.Errorf("resolve the data directory: %w", err)
	}
	if len(root) > maxDataDir {
		return place{}, fmt.Errorf("data directory %s: the path is longer than the %d bytes that Postgres can handle", root, maxDataDir)
	}
	return place{root: root}, nil
}

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
