package redistest

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is one run of the program.
type process struct {
	cmd   *exec.Cmd
	said  output
	ended chan struct{}
}

// launch starts the program on a thread that stays until it ends: where the
// kernel ends a child with its parent, it means the thread that made it.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.said, &p.said
	endWithParent(cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// over waits a moment for the end of the process.
func (p *process) over(wait time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(wait):
		return false
	}
}

// kill ends the process, also a frozen one, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.ended
}

// output keeps what a process writes, for the error that tells of its failure.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
