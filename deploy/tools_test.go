// Package deploy_test holds what a monitoring system is given to what the
// gateway really says of itself: the alerts, who is told of them, and the
// dashboard.
package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

const (
	rulesFile        = "prometheus/rules.yml"
	alertmanagerFile = "alertmanager/alertmanager.yml"
	dashboardFile    = "grafana/dashboard.json"
	handbookFile     = "../docs/operations.md"
)

func TestMain(m *testing.M) { leaktest.Main(postgrestest.Main(m)) }

// run runs a program of Prometheus's, and returns what it said and whether it
// was content.
func run(t *testing.T, program string, args ...string) (said string, content bool) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if path, err = filepath.Abs(filepath.Join("..", "bin", program)); err == nil {
			_, err = os.Stat(path)
		}
	}
	if err != nil {
		t.Fatalf("%s is neither on the PATH nor in bin/: run `make deps`", program)
	}
	output, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	return string(output), err == nil
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// readYAML reads a file into what the tests look at of it.
func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, file), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
