package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// tried is `serve --try` on a private database, as make run starts it.
type tried struct {
	cmd  *exec.Cmd
	api  string
	key  string
	curl string // as it was printed

	printed string       // all of the greeting
	logged  bytes.Buffer // whole once the program has ended
}

var (
	printedAPI = regexp.MustCompile(`^  API +(http://\S+)/v1$`)
	printedKey = regexp.MustCompile(`^  Key +(bw_\w+), kept in (\S+)$`)
)

// serveTry starts the program and reads what it greets with.
func serveTry(t *testing.T, folder string) *tried {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "breakwater.yaml")
	text := fmt.Sprintf(`
server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0"}
database: {private: true, data_dir: %q}
providers: {alpha: {kind: simulated, simulated: {latency: 1ms}, models: {m1: {}}}}
configurations: {chat: {targets: [{provider: alpha, model: m1}]}}
`, folder)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", "--try", "--config", file)
	cmd.Args[0] = "breakwater"
	s := &tried{cmd: cmd}
	cmd.Stderr = io.MultiWriter(t.Output(), &s.logged)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have been killed
		_ = cmd.Wait()
	})
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	for scanner := bufio.NewScanner(out); scanner.Scan() && !strings.HasPrefix(scanner.Text(), "Stop it"); {
		line := scanner.Text()
		s.printed += line + "\n"
		if found := printedAPI.FindStringSubmatch(line); found != nil {
			s.api = found[1]
		}
		if found := printedKey.FindStringSubmatch(line); found != nil {
			s.key = found[1]
		}
		if strings.HasPrefix(line, "  curl ") || s.curl != "" && line != "" {
			s.curl += line + "\n"
		}
	}
	if s.api == "" || s.key == "" || s.curl == "" {
		t.Fatalf("the greeting lacks something: %+v", s)
	}
	return s
}

// call runs the printed command as a person would paste it.
func (s *tried) call(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", strings.Replace(s.curl, "curl ", "curl -sS ", 1)).CombinedOutput()
	if err != nil {
		t.Fatalf("the printed command: %v: %s", err, out)
	}
	return string(out)
}

// What a newcomer is told works: the first time, after a crash, and when the key
// was lost or ended.
func TestThePrintedCallWorksEachTime(t *testing.T) {
	t.Parallel()
	folder := apptest.DataDir(t)
	keyFile := filepath.Join(folder, "try-key")
	works := func(s *tried) {
		t.Helper()
		if answer := s.call(t); !strings.Contains(answer, `"chat.completion"`) {
			t.Errorf("the printed call answers %s", answer)
		}
		if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key's file: %v, %v, want mode 0600", info, err)
		}
		anybody, err := http.Get(s.api + "/v1/models")
		if err != nil {
			t.Fatal(err)
		}
		if _ = anybody.Body.Close(); anybody.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a key: %d, want 401", anybody.StatusCode)
		}
	}

	first := serveTry(t, folder)
	works(first)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait()

	second := serveTry(t, folder)
	works(second)
	if second.key != first.key {
		t.Error("after a crash there is another key")
	}
	end(t, second)
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}

	third := serveTry(t, folder)
	works(third)
	if third.key == first.key {
		t.Error("a key that was lost is there again")
	}
	revoke(t, filepath.Join(folder, "breakwater.yaml"), third.key)
	end(t, third)

	fourth := serveTry(t, folder)
	works(fourth)
	if fourth.key == third.key {
		t.Error("a key that was revoked is there again")
	}
}

// The key that is printed stands in the greeting and its file alone: not in what
// the program logs, and not in its database.
func TestThePrintedKeyIsNowhereElse(t *testing.T) {
	t.Parallel()
	folder := apptest.DataDir(t)
	s := serveTry(t, folder)
	if answer := s.call(t); !strings.Contains(answer, `"chat.completion"`) {
		t.Errorf("the printed call answers %s", answer)
	}
	end(t, s)

	secret := s.key[strings.LastIndexByte(s.key, '_')+1:]
	var marks apptest.Marks
	marks.Watch("the printed key", s.key, secret)
	if logged := s.logged.String(); !strings.Contains(logged, "listening") {
		t.Errorf("nothing is kept of what the program logs: %q", logged)
	}
	for _, leak := range marks.Leaks(s.logged.String()) {
		t.Errorf("the log shows %s (%s): …%q…", leak.Secret, leak.Form, leak.Near)
	}
	if n, calls := strings.Count(s.printed, secret), strings.Count(s.curl, secret); n != 1+calls {
		t.Errorf("the greeting shows the key %d times, want once beside the %d of its call:\n%s", n, calls, s.printed)
	}
	var holders []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if data, err := os.ReadFile(path); err != nil || bytes.Contains(data, []byte(secret)) {
			holders = append(holders, filepath.Base(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"try-key"}, holders); diff != "" {
		t.Errorf("files that hold the key (-want +got):\n%s", diff)
	}
}

func end(t *testing.T, s *tried) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Fatalf("the program ended with %v", err)
	}
}

func revoke(t *testing.T, file, key string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "keys", "revoke", key[:len("bw_0123456789")], "--config", file)
	cmd.Args[0] = "breakwater"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "revoked key ") {
		t.Fatalf("revoke: %v: %s", err, out)
	}
}
