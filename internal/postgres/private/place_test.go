package private

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deepDir is a data directory too deep for a socket's path.
func deepDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(openDir(t), strings.Repeat(strings.Repeat("d", 99)+"/", 7))
}

func TestDeepDataDir(t *testing.T) {
	t.Parallel()
	cfg := config(deepDir(t))

	server := startServer(t, cfg)

	if got := len(filepath.Join(server.sockets, socketName)); got > maxSocketPath {
		t.Errorf("the socket's path has %d bytes, want at most %d", got, maxSocketPath)
	}
}

func TestSocketLiesInAShallowDataDir(t *testing.T) {
	t.Parallel()
	cfg := config(dataDir(t))
	server := startServer(t, cfg)

	if got := filepath.Dir(server.sockets); got != cfg.DataDir {
		t.Errorf("the socket lies in %s, want %s", got, cfg.DataDir)
	}
}

func TestTooDeepDataDirIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), config(filepath.Join(openDir(t), strings.Repeat(strings.Repeat("d", 99)+"/", 9))))
	if err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("got error %v, want one about the path's length", err)
	}
}

func TestEverySpellingOfADataDirMeansOneServer(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("data", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var marks []string
	for _, spelling := range []string{"data", "link", "data/../data/"} {
		p, err := openPlace(dir + "/" + spelling)
		if err != nil {
			t.Fatal(err)
		}
		marks = append(marks, p.mark())
	}
	if marks[0] != marks[1] || marks[0] != marks[2] {
		t.Errorf("got marks %v, want one", marks)
	}
}

func TestNoDatabaseIsMadeForThoseWhoOnlyLook(t *testing.T) {
	t.Parallel()
	// A first start that came no further than its lock.
	half := filepath.Join(openDir(t), "half")
	if err := os.MkdirAll(half, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "postgres.lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"no directory": filepath.Join(openDir(t), "none"), "no more than a lock": half} {
		cfg := config(dir)
		cfg.Existing = true
		if _, err := Use(t.Context(), cfg); !errors.Is(err, ErrNoDatabase) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got error %v, want ErrNoDatabase with %s", name, err, dir)
		}
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			t.Errorf("%s: a database was made", name)
		}
	}
}

func TestRootKeepsDataWhereOnlyRootMayEnter(t *testing.T) {
	t.Parallel()
	needRoot(t)
	closed := filepath.Join(openDir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := config(filepath.Join(closed, "data"))
	server := startServer(t, cfg)
	remember(t, server.URL())
	if got := userOf(t, server.keeper.current().pid()); got != "postgres" {
		t.Errorf("the server runs as %s, want postgres", got)
	}
	server.keeper.release()
	server.lock.release()

	recall(t, startServer(t, cfg).URL())
}

func TestRootWorksFromADirectoryOnlyRootMayEnter(t *testing.T) {
	t.Parallel()
	needRoot(t)
	closed := filepath.Join(openDir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	o := actor(t, "start", ".breakwater")
	o.cmd.Dir = closed
	o.cmd.Env = append(o.cmd.Env, "TMPDIR="+closed)
	o.begin(t)

	if o.Error != "" {
		t.Fatal(o.Error)
	}
	if strings.Contains(o.URL, "closed") {
		t.Errorf("the socket is at %s, where the server's user may not go", o.URL)
	}
}

func TestOrdinaryUserBelowAnUnreadableParent(t *testing.T) {
	t.Parallel()
	acc := ordinary(t)
	parent := filepath.Join(openDir(t), "unreadable")
	dir := filepath.Join(parent, "data")
	if err := os.MkdirAll(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := acc.own(dir); err != nil {
		t.Fatal(err)
	}

	if o := actor(t, "start", dir).asOrdinary(t, acc).begin(t); o.Error != "" {
		t.Error(o.Error)
	}
}

func TestOrdinaryUserBelowAClosedParentIsToldWhich(t *testing.T) {
	t.Parallel()
	acc := ordinary(t)
	closed := filepath.Join(openDir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	o := actor(t, "start", filepath.Join(closed, "data")).asOrdinary(t, acc).begin(t)

	if !strings.Contains(o.Error, closed) || !strings.Contains(o.Error, "permission denied") {
		t.Errorf("got error %q, want permission denied at %s", o.Error, closed)
	}
}

func TestOrdinaryUserIsToldThatTheDataIsSomebodyElses(t *testing.T) {
	t.Parallel()
	acc, dir := ordinary(t), openDir(t)
	stopServer(t, startServer(t, config(dir)))

	o := actor(t, "start", dir).asOrdinary(t, acc).begin(t)
	if !strings.Contains(o.Error, "run as the user who made it") {
		t.Errorf("got error %q, want one that says what to do", o.Error)
	}
}

func TestFirstClosedDirectory(t *testing.T) {
	t.Parallel()
	needRoot(t)
	open := openDir(t)
	deep := filepath.Join(open, "a", "closed", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(open, "a", "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	acc, err := accountFor(place{root: deep})
	if err != nil {
		t.Fatal(err)
	}
	i, err := findInstall(t.Context(), place{root: deep})
	if err != nil {
		t.Fatal(err)
	}
	got := door{install: i, account: acc}.firstClosed(t.Context(), deep)
	if want := filepath.Join(open, "a", "closed"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSocketDirOfSomebodyElseIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		make func(t *testing.T, dir string)
	}{
		{"open to others", func(t *testing.T, dir string) {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}},
		{"a link", func(t *testing.T, dir string) {
			if err := os.Symlink(openDir(t), dir); err != nil {
				t.Fatal(err)
			}
		}},
		{"another user's", func(t *testing.T, dir string) {
			acc := ordinary(t)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := acc.own(dir); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(deepDir(t))
			p, err := openPlace(cfg.DataDir)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(os.TempDir(), p.mark())
			test.make(t, dir)
			t.Cleanup(func() { os.RemoveAll(dir) })

			_, err = Start(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("got error %v, want one that names %s", err, dir)
			}
		})
	}
}
