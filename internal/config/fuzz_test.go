package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse: whatever a file holds, it gives a valid configuration that can be
// shown, or faults that each say something.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.yaml", "../../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yaml", data, variables)
		if err == nil {
			checkParsed(t, c)
			return
		}
		faults, ok := errors.AsType[Faults](err)
		if !ok || len(faults) == 0 {
			t.Fatalf("got %T %v, want faults", err, err)
		}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Problem == "" || fault.Remedy == "" {
				t.Errorf("a fault says too little: %+v", fault)
			}
		}
		if strings.Contains(err.Error(), "hunter2") && !bytes.Contains(data, []byte("hunter2")) {
			t.Errorf("a fault quotes a secret:\n%v", err)
		}
	})
}

// unmasked puts texts in the place of masked secrets where *** itself would be
// refused: as a URL, and for several keys at once.
func unmasked(shown string) string {
	before, cache, _ := strings.Cut(shown, "\ncache:\n")
	before = strings.Replace(before, `url: "***"`, "url: postgres://shown", 1)
	cache = strings.Replace(cache, `url: "***"`, "url: redis://shown", 1)
	shown = before + "\ncache:\n" + cache
	for i := 0; strings.Contains(shown, "- \"***\""); i++ {
		shown = strings.Replace(shown, "- \"***\"", fmt.Sprintf("- key-%d", i), 1)
	}
	return shown
}

// checkParsed holds a configuration to what every user of it relies on.
func checkParsed(t *testing.T, c *Config) {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Errorf("parsed, but not valid:\n%v", err)
	}
	for name := range c.Configurations {
		if len(c.Targets(name)) == 0 {
			t.Errorf("configuration %q has no target", name)
		}
	}
	var first bytes.Buffer
	if err := c.Show(&first); err != nil {
		t.Fatal(err)
	}
	// What is shown reads back as the same, but for the secrets.
	shown := unmasked(first.String())
	again, err := Parse("shown.yaml", []byte(shown), variables)
	if err != nil {
		if !strings.Contains(shown, "${") {
			t.Fatalf("what is shown is refused:\n%v\n%s", err, shown)
		}
		return
	}
	var second bytes.Buffer
	if err := again.Show(&second); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(shown, "${") && first.String() != second.String() {
		t.Errorf("shown as\n%s\nthen as\n%s", &first, &second)
	}
}
