package private

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fake makes a directory that looks like an installation.
func fake(t *testing.T, says string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", says)
	for _, name := range []string{"postgres", "initdb"} {
		putProgram(t, filepath.Join(dir, name), []byte(script))
	}
	return dir
}

func TestMissingServerNamesWhatToInstall(t *testing.T) {
	t.Parallel()
	_, err := pick(t.Context(), nil, 0)
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("got error %v, want ErrNotInstalled with the line to type", err)
	}
}

func TestPickInstall(t *testing.T) {
	t.Parallel()
	old, new, broken := fake(t, "postgres (PostgreSQL) 14.9"), fake(t, "postgres (PostgreSQL) 17beta1"), fake(t, "hello")
	dirs := []string{broken, old, new}
	tests := []struct {
		name string
		made int
		want install
		err  string
	}{
		{"newest for new data", 0, install{new, 17}, ""},
		{"the one that made the data", 14, install{old, 14}, ""},
		{"none that reads the data", 16, install{}, "release 16"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := pick(t.Context(), dirs, test.made)
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got error %v, want %q", err, test.err)
			}
		})
	}
}

func TestCandidatesResolveLinksAndSkipHalfInstallations(t *testing.T) {
	t.Parallel()
	real, clientOnly, links := fake(t, ""), fake(t, ""), t.TempDir()
	if err := os.Remove(filepath.Join(clientOnly, "initdb")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(real, "postgres"), filepath.Join(links, "postgres")); err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{clientOnly, links, "relative", ""}, string(os.PathListSeparator))

	got := candidates(path, []string{filepath.Dir(real) + "/*"})
	if len(got) != 1 || got[0] != real {
		t.Errorf("got %v, want only %s", got, real)
	}
}

func TestDataOfAnotherReleaseIsNamed(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	cluster := filepath.Join(dir, "postgres")
	if err := os.Mkdir(cluster, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cluster, "PG_VERSION"), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), config(dir))
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "release 7") {
		t.Errorf("got error %v, want one that names release 7", err)
	}
}
