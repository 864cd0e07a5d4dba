package private

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// attributes make a child that runs as the account, is out of reach of the
// terminal's signals (Ctrl-C must end the gateway first, its database after)
// and gets the fast shutdown when the thread that started it ends.
func attributes(acc account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: acc.credential(), Pdeathsig: fastShutdown}
}

// identify reads the command line, which unlike the links to a process's
// program and directory is open to root without further capabilities. The
// launcher names the data directory there by its resolved path.
func identify(pid int, p place) whose {
	if !alive(pid) {
		return nobodys
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nobodys
	}
	args := strings.Split(string(bytes.TrimRight(text, "\x00")), "\x00")
	if name := filepath.Base(args[0]); name != "postgres" && name != "postmaster" {
		return foreign
	}
	for n, arg := range args[1:] {
		if arg == "-D" && n+2 < len(args) && filepath.IsAbs(args[n+2]) {
			return oursIf(args[n+2] == p.cluster())
		}
	}
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return unclear
	}
	return oursIf(dir == p.cluster())
}

func oursIf(same bool) whose {
	if same {
		return ours
	}
	return foreign
}
