package private

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user the server runs as. Postgres refuses to run as root, so
// root hands it to another; anybody else runs it as themselves.
type account struct {
	uid, gid uint32
	name     string
	// switched is true when that is not the user of this process.
	switched bool
}

// accountFor picks the user: as root the one who owns the files already, else
// postgres, else nobody.
func accountFor(p place) (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid()), name: "this user"}, nil
	}
	if acc, ok := ownerOf(p.cluster()); ok {
		return acc, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if acc, ok := lookUp(name); ok {
			return acc, nil
		}
	}
	return account{}, fmt.Errorf("postgres does not run as root and there is no user postgres to run it as: create one")
}

func ownerOf(dir string) (account, bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return account{}, false
	}
	stat := info.Sys().(*syscall.Stat_t)
	if stat.Uid == 0 {
		return account{}, false
	}
	name := strconv.Itoa(int(stat.Uid))
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return account{uid: stat.Uid, gid: stat.Gid, name: name, switched: true}, true
}

func lookUp(name string) (account, bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, false
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		return account{}, false
	}
	return account{uid: uint32(uid), gid: uint32(gid), name: name, switched: true}, true
}

// own gives a path that this process has made to the account.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

func (a account) credential() *syscall.Credential {
	if !a.switched {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}
