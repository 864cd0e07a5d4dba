package replicatest

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel end the replica with this process, also while
// it is paused.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
