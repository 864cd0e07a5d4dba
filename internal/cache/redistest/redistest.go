// Package redistest gives a test a real redis-server of its own, and the means
// to hurt it: kill, restart, freeze. It knows nothing of what is kept there.
package redistest

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	program     = "redis-server"
	patience    = 2 * time.Minute // for a start on a busy machine
	startTrials = 5               // ports on which somebody else may listen
	portTrials  = 100

	// busOffset is how far the port of a cluster's bus is from that of its clients.
	busOffset = 10_000
	lastPort  = 65535
)

// Server is a redis-server process that listens on a loopback port and keeps
// nothing on disk. It ends with its test.
type Server struct {
	t       testing.TB
	path    string
	dir     string
	options []string
	port    int

	mu      sync.Mutex
	process *process // nil while it is not running
}

// Start starts a server and waits until it answers. Options are redis-server's
// own, such as "--requirepass", "secret".
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is not on the PATH: run `make deps`", program)
	}
	s := &Server{t: t, path: path, dir: t.TempDir(), options: options}
	t.Cleanup(s.Kill)
	for range startTrials {
		s.port = Port(t)
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatalf("start %s: %v", program, err)
	return nil
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is where a client finds the server, without credentials.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Kill ends the server at once, as a crash does. It may be called twice.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// Restart kills the server and starts an empty one on the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		s.t.Fatalf("start %s again: %v", program, err)
	}
}

// Freeze stops the process: its connections stay, nothing answers.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		s.t.Fatalf("%v: the server is not running", sig)
	}
	if err := s.process.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("%v: %v", sig, err)
	}
}

// Fill makes a server that has no room for anything: it throws nothing away and
// refuses to write.
func (s *Server) Fill() { s.t.Helper(); s.must("CONFIG", "SET", "maxmemory", "1") }

// Relieve gives it room again.
func (s *Server) Relieve() { s.t.Helper(); s.must("CONFIG", "SET", "maxmemory", "0") }

// FlushAll removes every key.
func (s *Server) FlushAll() { s.t.Helper(); s.must("FLUSHALL") }

// FlushScripts makes the server forget every script.
func (s *Server) FlushScripts() { s.t.Helper(); s.must("SCRIPT", "FLUSH") }

// Keys lists every key.
func (s *Server) Keys() []string {
	s.t.Helper()
	all, _ := s.must("KEYS", "*").([]any)
	keys := make([]string, len(all))
	for i := range all {
		keys[i], _ = all[i].(string)
	}
	return keys
}

// TTL returns how long the key will live: negative when it is absent or has no
// end.
func (s *Server) TTL(key string) time.Duration {
	s.t.Helper()
	ms, _ := s.must("PTTL", key).(int64)
	return time.Duration(ms) * time.Millisecond
}

// Do sends one command over a connection of its own. The answer is a string, an
// int64, a []any of these, or nil.
func (s *Server) Do(args ...string) (any, error) {
	c, err := dial(s.Addr(), patience)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if password := s.password(); password != "" {
		if _, err := c.do("AUTH", password); err != nil {
			return nil, err
		}
	}
	return c.do(args...)
}

func (s *Server) must(args ...string) any {
	s.t.Helper()
	answer, err := s.Do(args...)
	if err != nil {
		s.t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return answer
}

func (s *Server) password() string {
	for i, option := range s.options {
		if option == "--requirepass" && i+1 < len(s.options) {
			return s.options[i+1]
		}
	}
	return ""
}

// start runs the program and waits until it is this process that answers.
func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir}
	p, err := launch(exec.Command(s.path, append(args, s.options...)...))
	if err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	for {
		err := s.answers(p)
		if err == nil {
			s.process = p
			return nil
		}
		if p.over(5*time.Millisecond) || time.Now().After(deadline) {
			p.kill()
			return fmt.Errorf("%w; it said:\n%s", err, p.said.String())
		}
	}
}

func (s *Server) answers(p *process) error {
	about, err := s.Do("INFO", "server")
	if err != nil {
		return err
	}
	text, _ := about.(string)
	if !strings.Contains(text, fmt.Sprintf("process_id:%d\r\n", p.cmd.Process.Pid)) {
		return fmt.Errorf("another server answers on port %d", s.port)
	}
	return nil
}

// Port returns a port of this machine, on which a server may listen, and again
// after its end, until the test ends. It is one whose server may be part of a
// cluster.
func Port(t testing.TB) int {
	t.Helper()
	for range portTrials {
		port, err := holdPort(t, 0)
		if err != nil {
			t.Fatalf("find a free port: %v", err)
		}
		if port+busOffset > lastPort {
			continue
		}
		if _, err := holdPort(t, port+busOffset); err == nil {
			return port
		}
	}
	t.Fatal("there is no free port")
	return 0
}
