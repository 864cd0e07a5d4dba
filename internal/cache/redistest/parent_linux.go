package redistest

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel end the server when the test process dies
// before it could clean up.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
