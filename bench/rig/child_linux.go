package rig

import (
	"os/exec"
	"syscall"
)

// bindToParent ends the process with this one, even when this one is killed.
func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
