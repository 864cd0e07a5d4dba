//go:build !linux

package private

import "syscall"

// attributes make a child that runs as the account and is out of reach of the
// terminal's signals. Nothing ends it with its parent here: the next start
// finds it.
func attributes(acc account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: acc.credential()}
}

// identify cannot look into processes here, so a living one is unclear.
func identify(pid int, _ place) whose {
	if !alive(pid) {
		return nobodys
	}
	return unclear
}
