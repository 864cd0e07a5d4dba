package cases

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// command is one that a server ran, for a client or inside a script.
type command struct {
	inside bool
	words  []string
}

// listenTo hears every command that a server runs from now on, until the
// returned function is called for them.
func listenTo(t *testing.T, server *redistest.Server) func() []command {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("the server does not tell: %q %v", lines.Text(), lines.Err())
	}
	var heard []command
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines.Scan() {
			heard = append(heard, parseCommand(lines.Text()))
		}
	})
	stop := func() []command {
		_ = conn.Close()
		reading.Wait()
		return heard
	}
	t.Cleanup(func() { stop() })
	return stop
}

// parseCommand reads a line such as
//
//	+1700000000.000001 [0 127.0.0.1:60000] "EVALSHA" "sha" "2" "key"
func parseCommand(line string) command {
	c := command{inside: strings.Contains(line, " lua] ")}
	_, rest, _ := strings.Cut(line, "] ")
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		word, _ := strconv.Unquote(quoted)
		c.words = append(c.words, word)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	c.words = append(c.words, "", "") // so that there always is a first and a second
	c.words[0] = strings.ToUpper(c.words[0])
	return c
}

// declared are the keys that a run of a script names.
func declared(t *testing.T, words []string) []string {
	t.Helper()
	n, err := strconv.Atoi(words[2])
	if err != nil || n < 1 || len(words) < 3+n {
		t.Fatalf("a script is run without keys: %q", words)
	}
	return words[3 : 3+n]
}
