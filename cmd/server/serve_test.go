package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// patience bounds every wait of a test; a slow machine needs most of it.
const patience = 2 * time.Minute

// running is the program as a supervisor has it: a process, its configuration
// file, and the lines that it logs.
type running struct {
	process *os.Process
	path    string
	data    string
	admin   string
	lines   chan line
	said    apptest.Logs // everything that the process writes, as it is
	ended   chan error
}

// line is as much of a line of the log as the tests look at.
type line struct {
	Level, Msg, Trigger, Error string
	Data                       string `json:"listen"`
	Admin                      string `json:"admin_listen"`
}

// served is a configuration with a health window by which it is told apart.
func served(window string) string {
	return strings.Replace(smallConfig, "auth:", "log: {format: json}\nhealth: {window: "+window+"}\nauth:", 1)
}

// serve runs the program until the test ends, which must be well.
func serve(t *testing.T, window string) *running {
	t.Helper()
	return serveText(t, served(window), postgrestest.URL(t))
}

// serveText is serve with a configuration and a database of the test's choice.
func serveText(t *testing.T, text, databaseURL string) *running {
	t.Helper()
	r := startProcess(t, text, databaseURL)
	t.Cleanup(func() {
		if err := r.process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := <-r.ended; err != nil {
			t.Errorf("the program ended with %v", err)
		}
	})
	return r
}

// startProcess runs the program; whoever asks for it ends it.
func startProcess(t *testing.T, text, databaseURL string) *running {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{path: filepath.Join(t.TempDir(), "breakwater.yaml"), lines: make(chan line, 10000), ended: make(chan error, 1)}
	r.write(t, text)
	cmd := exec.Command(program, "serve", "--config", r.path)
	cmd.Args[0] = "breakwater" // by which the test binary knows what it is to be
	cmd.Env = append(os.Environ(), "DATABASE_URL="+databaseURL)
	cmd.Stdout = &r.said
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.process = cmd.Process
	var read sync.WaitGroup
	read.Go(func() { r.read(stderr) })
	go func() {
		read.Wait()
		r.ended <- cmd.Wait()
	}()
	at := r.await(t, "listening")
	r.data, r.admin = "http://"+at.Data, "http://"+at.Admin
	return r
}

// read passes the log on; a line that is none shows as its own message.
func (r *running) read(stderr io.Reader) {
	defer close(r.lines)
	for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
		var l line
		_, _ = r.said.Write(append(slices.Clone(scanner.Bytes()), '\n'))
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			l.Msg = scanner.Text()
		}
		r.lines <- l
	}
}

// await returns the next line of the log that says so.
func (r *running) await(t *testing.T, says string) line {
	t.Helper()
	var seen []line
	for timeout := time.After(patience); ; {
		select {
		case l, open := <-r.lines:
			if strings.Contains(l.Msg, says) {
				return l
			}
			if seen = append(seen, l); open {
				continue
			}
		case <-timeout:
		}
		t.Fatalf("the log does not say %q, it says %+v", says, seen)
	}
}

// write writes the configuration where it is, so that a half of it may be read
// before the whole. What does not say where its data is gets a place of its own.
func (r *running) write(t *testing.T, text string) {
	t.Helper()
	r.writeTo(t, r.path, text)
}

// replace puts a configuration in the place of the one that is there, at once.
func (r *running) replace(t *testing.T, text string) {
	t.Helper()
	r.writeTo(t, r.path+".new", text)
	if err := os.Rename(r.path+".new", r.path); err != nil {
		t.Fatal(err)
	}
}

func (r *running) writeTo(t *testing.T, path, text string) {
	t.Helper()
	if !strings.Contains(text, "data_dir:") {
		text = strings.Replace(text, "database: {", fmt.Sprintf("database: {data_dir: %q, ", filepath.Dir(r.path)), 1)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *running) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := r.process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// window is the health window in effect.
func (r *running) window(t *testing.T) string {
	t.Helper()
	resp, err := http.Get(r.admin + "/api/v1/config")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var shown struct{ Health struct{ Window string } }
	if err := json.NewDecoder(resp.Body).Decode(&shown); err != nil {
		t.Fatal(err)
	}
	return shown.Health.Window
}

func TestTheProgramReloadsItsFile(t *testing.T) {
	t.Parallel()
	r := serve(t, "1m")
	reloaded := func(trigger, window string) {
		t.Helper()
		if l := r.await(t, "configuration reloaded"); l.Trigger != trigger {
			t.Errorf("the reload was triggered by %q, want %q", l.Trigger, trigger)
		}
		if got := r.window(t); got != window {
			t.Errorf("after the reload the window is %s, want %s", got, window)
		}
	}

	// Replaced by a rename, as editors and deployments do.
	r.replace(t, served("2m"))
	reloaded("file", "2m")

	// Gone for a moment, which is no fault; what comes back is read.
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.write(t, served("3m"))
	reloaded("file", "3m")

	// A faulty file is refused, and so is one that is not there.
	r.replace(t, strings.Replace(served("4m"), "kind: openai", "kind: telegraph", 1))
	l := r.await(t, "configuration was not reloaded")
	if l.Level != "ERROR" || !strings.Contains(l.Error, "providers.alpha.kind") {
		t.Errorf("the refusal says %+v", l)
	}
	if got := r.window(t); got != "3m" {
		t.Errorf("after a refused reload the window is %s, want 3m", got)
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.signal(t, syscall.SIGHUP)
	l = r.await(t, "configuration was not reloaded")
	for l.Trigger != "SIGHUP" { // the faulty file may have been read more than once
		l = r.await(t, "configuration was not reloaded")
	}
	if !strings.Contains(l.Error, "no such file") {
		t.Errorf("the refusal of a missing file says %+v", l)
	}
	r.write(t, served("5m"))
	reloaded("file", "5m")
}

// SIGHUP reads the file again also when nothing called: a secret that it refers
// to may have changed.
func TestTheProgramReloadsOnSIGHUP(t *testing.T) {
	t.Parallel()
	r := serve(t, "1m")
	r.signal(t, syscall.SIGHUP)
	if l := r.await(t, "configuration is as it was"); l.Trigger != "SIGHUP" {
		t.Errorf("the reload was triggered by %q, want SIGHUP", l.Trigger)
	}

	secret := filepath.Join(t.TempDir(), "key")
	key := func(text string) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key("sk-one")
	r.replace(t, strings.Replace(served("1m"), "sk-very-secret", fmt.Sprintf("${file:%s}", secret), 1))
	r.await(t, "configuration reloaded")
	key("sk-two")
	r.signal(t, syscall.SIGHUP)
	if l := r.await(t, "configuration reloaded"); l.Trigger != "SIGHUP" {
		t.Errorf("the reload was triggered by %q, want SIGHUP", l.Trigger)
	}
}

// A file that holds whoever opens it neither ends the reloads nor keeps the
// program from going, which the end of the test is about.
func TestTheProgramOutlivesAFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := serve(t, "1m")
	pipe := func() {
		t.Helper()
		if err := os.Remove(r.path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(r.path, 0o600); err != nil {
			t.Fatal(err)
		}
		r.signal(t, syscall.SIGHUP)
		if l := r.await(t, "configuration was not reloaded"); !strings.Contains(l.Error, "is not a regular file") {
			t.Errorf("the refusal of a pipe says %+v", l)
		}
	}
	pipe()
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.write(t, served("2m"))
	r.await(t, "configuration reloaded")
	pipe()
}

// garbled answers a request and goes on talking when nothing was asked.
func garbled(t *testing.T) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		served.Wait()
	})
	served.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		const answer = `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%sUNASKED sk-secret\r\n\r\n", len(answer), answer)
		_, _ = io.Copy(io.Discard, conn)
	})
	return "http://" + listener.Addr().String() + "/v1"
}

// What the HTTP client did not understand of an upstream is nobody's to read.
func TestTheProgramShowsNothingOfUnaskedAnswers(t *testing.T) {
	t.Parallel()
	r := serve(t, "1m")
	text := strings.Replace(served("2m"), "format: json", "format: json, level: debug", 1)
	r.write(t, strings.Replace(text, "http://127.0.0.1:1/v1", garbled(t), 1))
	r.await(t, "configuration reloaded")
	resp, err := http.Post(r.data+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"chat","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for timeout := time.After(patience); ; {
		select {
		case l := <-r.lines:
			if strings.Contains(l.Msg, "sk-secret") || strings.Contains(l.Msg, "Unsolicited") {
				t.Fatalf("an upstream's bytes are in the log: %s", l.Msg)
			}
			if strings.Contains(l.Msg, "standard library") {
				return
			}
		case <-timeout:
			t.Fatal("nothing was reported")
		}
	}
}
