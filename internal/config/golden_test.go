package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// variables is the environment of every file in testdata.
func variables(name string) (string, bool) {
	value, ok := map[string]string{
		"DATABASE_URL": "postgres://breakwater:hunter2@localhost:5432/breakwater",
		"CONNS":        "3",
		"BODY":         "2MiB",
		"EMPTY":        "",
		"ENABLED":      "true",
		"PORT":         "9000",
		"HOSTILE":      "x: {a: [${CONNS}], \"#\n  max_conns: 99",
		"NUMBER":       "271828",
		"SECRET":       "hunter2: {a: [${CONNS}], \"#",
		"INJECTION":    "x\nbase_url: http://169.254.169.254",
	}[name]
	return value, ok
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden compares text with what a file expects of it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, file)), got); diff != "" {
		t.Errorf("not as in %s (-want +got):\n%s", file, diff)
	}
}

// forEachFile runs a test per YAML file of a folder, and gives it the name of
// the file that holds what is expected.
func forEachFile(t *testing.T, folder, extension string, test func(t *testing.T, file, expected string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/%s: %v", folder, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			test(t, file, strings.TrimSuffix(file, ".yaml")+extension)
		})
	}
}

func parseTestdata(t *testing.T, file string) (*Config, error) {
	t.Helper()
	c, r := parse(filepath.Base(file), read(t, file), variables, defaults(false))
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// Covers CFG-01, CFG-03, CFG-06 and ADM-01.
func TestBadFilesAreRefusedWithEveryFault(t *testing.T) {
	t.Parallel()
	forEachFile(t, "bad", ".faults", func(t *testing.T, file, expected string) {
		c, err := parseTestdata(t, file)
		if err == nil || c != nil {
			t.Fatalf("got a configuration %+v and the error %v, want faults only", c, err)
		}
		golden(t, expected, err.Error()+"\n")
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "271828") {
			t.Error("a fault quotes a value that may be a secret")
		}
	})
}

func TestGoodFilesAreShownWithEveryKey(t *testing.T) {
	t.Parallel()
	forEachFile(t, "good", ".show", func(t *testing.T, file, expected string) {
		c, err := parseTestdata(t, file)
		if err != nil {
			t.Fatalf("refused:\n%v", err)
		}
		var out bytes.Buffer
		if err := c.Show(&out); err != nil {
			t.Fatal(err)
		}
		golden(t, expected, out.String())
		if strings.Contains(out.String(), "hunter2") {
			t.Error("a secret is shown")
		}
	})
}
