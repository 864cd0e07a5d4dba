package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Redis is a redis-server of the run's own, on a loopback port; it keeps
// nothing on disk.
type Redis struct {
	URL string

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of its end
}

// startTrials is how many ports are tried: somebody else may take one first.
const startTrials = 5

// StartRedis runs a server and returns once it answers. What it logs goes to a
// file in dir.
func StartRedis(ctx context.Context, dir string) (r *Redis, err error) {
	for range startTrials {
		if r, err = startRedis(ctx, dir); err == nil || ctx.Err() != nil {
			break
		}
	}
	return r, err
}

func startRedis(ctx context.Context, dir string) (*Redis, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	number := strconv.Itoa(port)
	cmd := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", number, "--save", "", "--appendonly", "no",
		"--dir", dir, "--logfile", logFile(dir, "redis"))
	bindToParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server (`make deps` installs it): %w", err)
	}
	r := &Redis{URL: "redis://127.0.0.1:" + number, cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for !r.answers(ctx) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-r.ended:
			return nil, fmt.Errorf("start redis-server: it has ended (see %s): %w", logFile(dir, "redis"), r.err)
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("start redis-server: it does not answer (see %s): %w", logFile(dir, "redis"), ctx.Err()), r.Stop())
		}
	}
	return r, nil
}

// answers reports whether the server takes commands, and it is this one.
func (r *Redis) answers(ctx context.Context) bool {
	told, err := r.info(ctx, "server")
	return err == nil && strings.Contains(told, fmt.Sprintf("process_id:%d\r\n", r.PID()))
}

// info asks for a section of what the server tells about itself.
func (r *Redis) info(ctx context.Context, section string) (string, error) {
	conn, err := (&net.Dialer{Timeout: startLimit}).DialContext(ctx, "tcp", r.URL[len("redis://"):])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(startLimit))
	if _, err := conn.Write([]byte("INFO " + section + "\r\nQUIT\r\n")); err != nil {
		return "", err
	}
	told, err := io.ReadAll(conn)
	return string(told), err
}

// PID is the server's process.
func (r *Redis) PID() int { return r.cmd.Process.Pid }

// ScriptRuns returns how many scripts the server has run so far.
func (r *Redis) ScriptRuns(ctx context.Context) (int, error) {
	told, err := r.info(ctx, "commandstats")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(told, "cmdstat_evalsha:calls=") // absent = none yet
	number, _, _ := strings.Cut(rest, ",")
	if number == "" {
		return 0, nil
	}
	return strconv.Atoi(number)
}

// Stop ends the server and waits for its end.
func (r *Redis) Stop() error {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	overdue := time.AfterFunc(stopLimit, func() { _ = r.cmd.Process.Kill() })
	defer overdue.Stop()
	<-r.ended
	if r.err != nil {
		return fmt.Errorf("redis-server: %w", r.err)
	}
	return nil
}

// freePort asks the kernel for a port that nobody uses.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
