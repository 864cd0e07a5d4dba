package private

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// socketName is what Postgres calls the socket of its usual port. The
	// port only names the file: nothing listens on TCP.
	socketName = ".s.PGSQL.5432"
	// maxSocketPath is the room for a socket's path in the kernel's address
	// structure, less the closing zero: 103 bytes on BSD and macOS, 107 on
	// Linux.
	maxSocketPath = 103
)

// makeSocketDir makes the directory in which the server's socket lies. A
// socket's path is short by law while a data directory may be deep, so it lies
// elsewhere, under a name derived from the data directory.
func makeSocketDir(ctx context.Context, i install, acc account, p place) (string, error) {
	dir, err := chooseSocketDir(ctx, i, acc, p)
	if err != nil {
		return "", err
	}
	if err := claim(dir, acc); err != nil {
		return "", err
	}
	// The lock is ours and no server runs: what lies here is left from one
	// that was killed, and a lock file among it may name a foreign process.
	removeSockets(dir)
	return dir, nil
}

func chooseSocketDir(ctx context.Context, i install, acc account, p place) (string, error) {
	name := fmt.Sprintf("breakwater-%x", sha256.Sum256([]byte(p.root)))[:len("breakwater-")+16]
	var refused error
	for _, base := range []string{os.TempDir(), "/tmp"} {
		dir := filepath.Join(base, name)
		if len(filepath.Join(dir, socketName)) > maxSocketPath {
			continue
		}
		if refused = reach(ctx, i, acc, base); refused == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find a place for the database's socket: %w", refused)
}

// claim makes the directory, or takes one that is already the account's and
// closed to others. Its parent is open to everybody: anyone could have put
// something else there under that name.
func claim(dir string, acc account) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("make the socket's directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the socket's directory: %w", err)
	}
	uid := info.Sys().(*syscall.Stat_t).Uid
	mine := uid == acc.uid || uid == uint32(os.Geteuid())
	if !info.IsDir() || !mine || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("the socket's directory %s is not a directory of user %s closed to others (owner %d, %s): remove it", dir, acc.name, uid, info.Mode())
	}
	if err := acc.own(dir); err != nil {
		return fmt.Errorf("hand the socket's directory to user %s: %w", acc.name, err)
	}
	return nil
}

func removeSockets(dir string) {
	os.Remove(filepath.Join(dir, socketName))
	os.Remove(filepath.Join(dir, socketName+".lock"))
}

func removeSocketDir(dir string) {
	removeSockets(dir)
	os.Remove(dir)
}

// socketURL is the connection string of the database behind a socket.
func socketURL(dir string) string {
	query := url.Values{"host": {dir}, "port": {"5432"}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User(owner), Path: "/" + owner, RawQuery: query.Encode()}).String()
}
