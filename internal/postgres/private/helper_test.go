package private

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// The test binary plays another process when this variable names what to do.
const actVariable = "PRIVATE_TEST_ACT"

func TestMain(m *testing.M) {
	if act := os.Getenv(actVariable); act != "" {
		os.Exit(play(act, os.Getenv("PRIVATE_TEST_DIR")))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for dir, ok := left.take(); ok; dir, ok = left.take() {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// report is what the other process says once its server answers.
type report struct {
	URL   string
	Owned bool
	Pid   int
	Error string
}

// play starts or uses a server until the input ends.
func play(act, dir string) int {
	begin := map[string]func(context.Context, Config) (*Server, error){"start": Start, "use": Use}[act]
	server, err := begin(context.Background(), Config{DataDir: dir, Volatile: true, Log: slog.New(slog.DiscardHandler)})
	var r report
	if err != nil {
		r.Error = err.Error()
	} else {
		r = report{URL: server.URL(), Owned: server.Owned()}
		if server.Owned() {
			r.Pid = server.keeper.current().pid()
		}
	}
	if json.NewEncoder(os.Stdout).Encode(r) != nil || err != nil {
		return 1
	}
	io.Copy(io.Discard, os.Stdin)
	if server.Stop(context.Background()) != nil {
		return 1
	}
	return 0
}

// other is another process that uses this package.
type other struct {
	report
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// actor sets up another process; its command may be changed before begin.
func actor(t *testing.T, act, dir string) *other {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), actVariable+"="+act, "PRIVATE_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	return &other{cmd: cmd}
}

// begin runs the process until it has reported.
func (o *other) begin(t *testing.T) *other {
	t.Helper()
	stdin, err := o.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o.stdin = stdin
	t.Cleanup(func() { o.end() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("read the other process's report: %v", err)
	}
	if err := json.Unmarshal(line, &o.report); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *other) end() error {
	o.stdin.Close()
	return o.cmd.Wait()
}

func (o *other) kill(t *testing.T) {
	t.Helper()
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	o.cmd.Wait()
}

// putProgram writes a file that can be executed at once. A child that another
// test forks meanwhile would hold it open for writing, and the system would call
// it busy; the lock keeps forks away.
func putProgram(t *testing.T, path string, text []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
}

// asOrdinary makes the process run as an ordinary user, from a copy of the
// program that they can get at.
func (o *other) asOrdinary(t *testing.T, acc account) *other {
	t.Helper()
	dir := openDir(t)
	program := filepath.Join(dir, "program")
	text, err := os.ReadFile(o.cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	putProgram(t, program, text)
	o.cmd.Path, o.cmd.Args = program, []string{program}
	o.cmd.Dir = dir
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: acc.credential()}
	return o
}

// ordinary is the user as whom root tries things out.
func ordinary(t *testing.T) account {
	t.Helper()
	needRoot(t)
	acc, ok := lookUp("nobody")
	if !ok {
		t.Skip("no user nobody on this machine")
	}
	return acc
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// openDir is a temporary directory that everybody may enter; t.TempDir is
// below one that only this user may.
func openDir(t *testing.T) string {
	t.Helper()
	dir := makeOpenDir(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func makeOpenDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "private")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// used are data directories that tests have finished with. Making new data
// takes a second, so a test that does not care gets what another has left.
type used struct {
	mu   sync.Mutex
	dirs []string
}

var left used

func (u *used) take() (string, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.dirs) == 0 {
		return "", false
	}
	dir := u.dirs[len(u.dirs)-1]
	u.dirs = u.dirs[:len(u.dirs)-1]
	return dir, true
}

func (u *used) put(dir string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dirs = append(u.dirs, dir)
}

// dataDir is a directory that everybody may enter, with or without data. What
// a test leaves in it must be fit for the next.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, ok := left.take()
	if !ok {
		dir = makeOpenDir(t)
	}
	t.Cleanup(func() { left.put(dir) })
	return dir
}

func config(dir string) Config {
	return Config{DataDir: dir, Volatile: true, Log: slog.New(slog.DiscardHandler)}
}

// startServer starts a server that the test's end stops.
func startServer(t *testing.T, cfg Config) *Server {
	t.Helper()
	server, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { stopServer(t, server) })
	return server
}

func stopServer(t *testing.T, server *Server) {
	t.Helper()
	if err := server.Stop(context.Background()); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// ask runs a statement and returns its one value as text.
func ask(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(context.Background())
	var value string
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// remember leaves a fact in the database that recall must find again.
func remember(t *testing.T, url string) {
	t.Helper()
	ask(t, url, "CREATE TABLE IF NOT EXISTS facts (word text)")
	ask(t, url, "DELETE FROM facts")
	ask(t, url, "INSERT INTO facts VALUES ('"+t.Name()+"')")
}

func recall(t *testing.T, url string) {
	t.Helper()
	if got := ask(t, url, "SELECT count(*)::text FROM facts WHERE word = '"+t.Name()+"'"); got != "1" {
		t.Errorf("after the restart the database has the row written before %s times, want once", got)
	}
}

// awaitEnd waits until a process is gone or a zombie.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	awaitThat(t, "the process is gone", func() bool { return !isRunning(pid) })
}

func isRunning(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return !errors.Is(err, fs.ErrNotExist) && len(line) > 0
}

// userOf is the name of the user a process runs as.
func userOf(t *testing.T, pid int) string {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	u, err := user.LookupId(strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)))
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

// bystander is a process of the account that has nothing to do with us.
func bystander(t *testing.T, acc account) int {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: acc.credential()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// zombie is a process of the account that has ended and is not buried.
func zombie(t *testing.T, acc account) int {
	t.Helper()
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: acc.credential()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Wait() })
	awaitEnd(t, cmd.Process.Pid)
	return cmd.Process.Pid
}

// startByHand starts a server on the data as a person would, without the
// marks of ours, and returns its process id.
func startByHand(t *testing.T, p place, acc account) int {
	t.Helper()
	i, err := findInstall(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	sockets := openDir(t)
	if err := acc.own(sockets); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(i.binary("postgres"), "-D", p.cluster(), "-k", sockets, "-c", "listen_addresses=")
	cmd.Dir = p.cluster()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: acc.credential()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(fastShutdown)
		cmd.Wait()
	})
	awaitThat(t, "the server started by hand is ready", func() bool {
		file, err := readPidFile(p)
		return err == nil && file.ready
	})
	return cmd.Process.Pid
}

// askQuietly runs a statement for its effect on the server.
func askQuietly(url, sql string) {
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		return
	}
	defer conn.Close(context.Background())
	conn.Exec(context.Background(), sql)
}

// awaitSession waits until another session of the server is at work.
func awaitSession(t *testing.T, url string) {
	t.Helper()
	awaitThat(t, "a session is at work", func() bool {
		return ask(t, url, "SELECT count(*)::text FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' AND pid <> pg_backend_pid()") != "0"
	})
}

func awaitThat(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

// lockedBuffer takes what several goroutines log.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
