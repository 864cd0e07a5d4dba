package private

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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

// makeSocketDir makes the directory in which the server's socket lies, under a
// name derived from the data directory: inside that, or elsewhere when it is
// too deep for a socket's path or closed to the server's user.
func makeSocketDir(ctx context.Context, d door, p place) (string, error) {
	dir, err := chooseSocketDir(ctx, d, p)
	if err != nil {
		return "", err
	}
	if err := prepareSocketDir(dir, d.account); err != nil {
		return "", err
	}
	return dir, nil
}

// prepareSocketDir makes the directory ready for a server. The lock is ours and
// no server runs: what lies here is left from one that was killed, and a lock
// file among it may name a foreign process.
func prepareSocketDir(dir string, acc account) error {
	if err := claim(dir, acc); err != nil {
		return err
	}
	removeSockets(dir)
	return nil
}

func chooseSocketDir(ctx context.Context, d door, p place) (string, error) {
	var closed []string
	for _, base := range []string{p.root, os.TempDir(), "/tmp"} {
		dir := filepath.Join(base, p.mark())
		if len(filepath.Join(dir, socketName)) <= maxSocketPath && d.enter(ctx, base) == nil {
			return dir, nil
		}
		closed = append(closed, base)
	}
	return "", fmt.Errorf("find a place for the database's socket: the path is too long, or user %s may not enter it: %s", d.account.name, strings.Join(closed, ", "))
}

// claim makes the directory, or takes one that is already the account's and
// closed to others. Where its parent is open to everybody, anyone could have
// put something else there under that name.
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
