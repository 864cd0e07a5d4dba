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

	cmd *exec.Cmd
}

// StartRedis runs a server and returns once it answers. What it logs goes to a
// file in dir.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
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
	r := &Redis{URL: "redis://127.0.0.1:" + number, cmd: cmd}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for !r.answers(ctx) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("start redis-server: it does not answer (see %s): %w", logFile(dir, "redis"), ctx.Err()), r.Stop())
		}
	}
	return r, nil
}

// answers reports whether the server takes commands.
func (r *Redis) answers(ctx context.Context) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", r.URL[len("redis://"):])
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	answer := make([]byte, len("+PONG"))
	_, err = conn.Write([]byte("PING\r\n"))
	if err == nil {
		_, err = conn.Read(answer)
	}
	return err == nil && string(answer) == "+PONG"
}

// PID is the server's process.
func (r *Redis) PID() int { return r.cmd.Process.Pid }

// ScriptRuns returns how many scripts the server has run so far.
func (r *Redis) ScriptRuns(ctx context.Context) (int, error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", r.URL[len("redis://"):])
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(startLimit))
	if _, err := conn.Write([]byte("INFO commandstats\r\nQUIT\r\n")); err != nil {
		return 0, err
	}
	told, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(told), "cmdstat_evalsha:calls=") // absent = none yet
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
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("redis-server: %w", err)
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
