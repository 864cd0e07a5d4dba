package private

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// canHand tells that an open directory can be named by a path: the first file
// a child inherits is its number 3.
const (
	canHand   = true
	handedDir = "/proc/self/fd/3"
)

// attributes make a child that runs as the account, is out of reach of the
// terminal's signals (Ctrl-C must end the gateway first, its database after)
// and gets the fast shutdown when the thread that started it ends.
func attributes(acc account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: acc.credential(), Pdeathsig: fastShutdown}
}

// processes lists what runs on this machine. The dead that nobody has buried
// have no command line and are left out.
func processes() ([]running, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var all []running
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// Unlike the links to a process's program and directory, its command
		// line is open to root without further capabilities.
		line, lineErr := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		info, infoErr := entry.Info()
		if lineErr != nil || infoErr != nil || len(line) == 0 {
			continue // gone since, or dead
		}
		command := string(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '}))
		all = append(all, running{pid: pid, uid: info.Sys().(*syscall.Stat_t).Uid, command: command})
	}
	return all, nil
}
