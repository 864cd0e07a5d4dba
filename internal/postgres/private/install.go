package private

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNotInstalled is in the error of Start when the machine has no Postgres
// server of the kind that is needed.
var ErrNotInstalled = errors.New("no Postgres server found")

const installHint = "install one (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; macOS: brew install postgresql) or set database.url"

// install is a directory with the binaries of one Postgres release.
type install struct {
	dir   string
	major int
}

func (i install) binary(name string) string { return filepath.Join(i.dir, name) }

// findInstall picks the newest release that can serve the data: the one that
// made it, or any when there is none yet. Postgres does not read the files of
// another major release.
func findInstall(ctx context.Context, p place) (install, error) {
	return pick(ctx, candidates(os.Getenv("PATH"), usualPlaces()), madeBy(p))
}

func pick(ctx context.Context, dirs []string, made int) (install, error) {
	var found []install
	for _, dir := range dirs {
		if major, err := majorOf(ctx, filepath.Join(dir, "postgres")); err == nil {
			found = append(found, install{dir: dir, major: major})
		}
	}
	slices.SortStableFunc(found, func(a, b install) int { return cmp.Compare(b.major, a.major) })
	for _, i := range found {
		if made == 0 || made == i.major {
			return i, nil
		}
	}
	if len(found) > 0 {
		return install{}, fmt.Errorf("%w that reads data of release %d (found release %d in %s): install that release", ErrNotInstalled, made, found[0].major, found[0].dir)
	}
	return install{}, fmt.Errorf("%w: %s", ErrNotInstalled, installHint)
}

func usualPlaces() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // the Postgres project's RPMs
		"/usr/libexec/postgresql*",          // Alpine
		"/opt/homebrew/opt/postgresql*/bin", // Homebrew on ARM
		"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
		"/usr/local/pgsql/bin",              // built from source
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	}
}

// candidates lists the directories that hold both programs. Links are resolved
// because the server looks for its own files beside the real program.
func candidates(path string, globs []string) []string {
	dirs := filepath.SplitList(path)
	for _, glob := range globs {
		matches, _ := filepath.Glob(glob) // fails only on a malformed pattern
		dirs = append(dirs, matches...)
	}
	var found []string
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil || !filepath.IsAbs(real) {
			continue
		}
		real = filepath.Dir(real)
		if _, err := os.Stat(filepath.Join(real, "initdb")); err == nil && !slices.Contains(found, real) {
			found = append(found, real)
		}
	}
	return found
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

func majorOf(ctx context.Context, binary string) (int, error) {
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("ask %s for its version: %w", binary, err)
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("ask %s for its version: it says %q", binary, bytes.TrimSpace(out))
	}
	return strconv.Atoi(string(match[1]))
}

// madeBy is the major release whose data the place holds; 0 if it holds none.
func madeBy(p place) int {
	text, err := os.ReadFile(filepath.Join(p.cluster(), "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, _, _ := strings.Cut(strings.TrimSpace(string(text)), ".")
	n, _ := strconv.Atoi(major) // an unreadable number is for the server to complain about
	return n
}
