//go:build !linux

package private

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// An open directory has no path here.
const (
	canHand   = false
	handedDir = ""
)

// attributes make a child that runs as the account and is out of reach of the
// terminal's signals. Nothing ends it with its parent here: the next start
// finds it.
func attributes(acc account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: acc.credential()}
}

// processes lists what runs on this machine.
func processes() ([]running, error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=,uid=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var all []running
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		pid, pidErr := strconv.Atoi(fields[0])
		uid, uidErr := strconv.ParseUint(fields[1], 10, 32)
		if pidErr == nil && uidErr == nil {
			all = append(all, running{pid: pid, uid: uint32(uid), command: strings.Join(fields[2:], " ")})
		}
	}
	return all, nil
}
