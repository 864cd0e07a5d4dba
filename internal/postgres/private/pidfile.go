package private

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// pidFile is what a server says of itself in postmaster.pid.
type pidFile struct {
	pid     int
	sockets string
	ready   bool
}

// readPidFile returns an fs.ErrNotExist if there is none. A file that is not
// written to its end yet has pid 0 or is not ready.
func readPidFile(p place) (pidFile, error) {
	text, err := os.ReadFile(p.pidFile())
	if err != nil {
		return pidFile{}, fmt.Errorf("read the server's pid file: %w", err)
	}
	// Lines: pid, data directory, start time, port, socket directory, listen
	// address, shared memory, status.
	lines := strings.Split(string(text), "\n")
	line := func(n int) string {
		if n < len(lines) {
			return strings.TrimSpace(lines[n])
		}
		return ""
	}
	pid, _ := strconv.Atoi(line(0)) // a torn file names no process
	return pidFile{pid: pid, sockets: line(4), ready: line(7) == "ready"}, nil
}
