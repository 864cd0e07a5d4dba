package main

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

// child is a process that this one started, and the only kind it ever ends.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	said  announcement
	log   chan error // the end of its log
}

// announcement is the line of a child's log that says where it listens.
type announcement struct {
	Msg         string
	Listen      string
	AdminListen string `json:"admin_listen"`
}

// start runs a program and returns once it listens. What it logs goes to a
// file of its name in dir.
func start(ctx context.Context, dir, name, program string, args ...string) (*child, error) {
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
	c := &child{name: name, cmd: cmd, stdin: stdin, log: make(chan error, 1)}
	said := make(chan announcement, 1)
	go func() { c.log <- follow(stderr, logFile(dir, name), said) }()

	select {
	case c.said = <-said:
		return c, nil
	case err = <-c.log:
		c.log <- err
		err = errors.Join(errors.New("it ended before it listened"), err)
	case <-time.After(startLimit):
		err = errors.New("it does not listen in time")
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(fmt.Errorf("start %s: %w (see %s)", name, err, logFile(dir, name)), c.stop())
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
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == listening {
			select {
			case said <- line:
			default:
			}
		}
	}
	return lines.Err()
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop asks the process to end and waits for it. One that does not is killed,
// which is an error.
func (c *child) stop() error {
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
