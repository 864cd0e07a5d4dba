package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 30 * time.Second // the gateway writes its last records first
)

// Listening is the message with which a child says where it is, as the gateway
// does in its own log.
const Listening = "listening"

// Child is a process that this one started, and the only kind it ever ends.
type Child struct {
	// Listen and AdminListen are where it said that it listens.
	Listen, AdminListen string

	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   chan error // the end of its log
}

// announcement is the line of a child's log that says where it listens.
type announcement struct {
	Msg         string
	Listen      string
	AdminListen string `json:"admin_listen"`
}

// Start runs a program and returns once it listens. What it logs goes to a
// file of its name in dir.
func Start(ctx context.Context, dir, name, program string, args ...string) (*Child, error) {
	cmd := exec.Command(program, args...)
	bindToParent(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &Child{name: name, cmd: cmd, stdin: stdin, log: make(chan error, 1)}
	said := make(chan announcement, 1)
	go func() { c.log <- follow(stderr, logFile(dir, name), said) }()

	select {
	case line := <-said:
		c.Listen, c.AdminListen = line.Listen, line.AdminListen
		return c, nil
	case err = <-c.log:
		c.log <- err
		err = errors.Join(errors.New("it ended before it listened"), err)
	case <-time.After(startLimit):
		err = errors.New("it does not listen in time")
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(fmt.Errorf("start %s: %w (see %s)", name, err, logFile(dir, name)), c.Stop())
}

func logFile(dir, name string) string { return dir + "/" + name + ".log" }

// follow copies a log into a file and hands on the first line that says where
// the process listens.
func follow(log io.Reader, file string, said chan<- announcement) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if _, err := f.Write(append(lines.Bytes(), '\n')); err != nil {
			return err
		}
		var line announcement
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == Listening {
			select {
			case said <- line:
			default:
			}
		}
	}
	return lines.Err()
}

// PID is the process's id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Signal sends the process a signal.
func (c *Child) Signal(s os.Signal) error { return c.cmd.Process.Signal(s) }

// Stop asks the process to end and waits for it. One that does not is killed,
// which is an error.
func (c *Child) Stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	_ = c.stdin.Close()
	overdue := time.AfterFunc(stopLimit, func() { _ = c.cmd.Process.Kill() })
	defer overdue.Stop()
	err := errors.Join(<-c.log, c.cmd.Wait())
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}
