package main

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRelay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	echo, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	r, err := startRelay(filepath.Join(dir, "r"), "postgres://u@/db?host="+dir+"&port=5432&sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.stop() })
	if !strings.Contains(r.url, "u@/db") || strings.Contains(r.url, "host="+dir+"&") {
		t.Errorf("the relay is at %s", r.url)
	}
	dial := func() net.Conn {
		conn, err := net.Dial("unix", filepath.Join(dir, "r", ".s.PGSQL.5432"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}

	conn := dial()
	if got := exchangeWord(conn, "one", time.Minute); got != "one" {
		t.Errorf("%q came back, want one", got)
	}
	r.set(stalls)
	if got := exchangeWord(conn, "two", 100*time.Millisecond); got != "" {
		t.Errorf("%q came back through a line that stands", got)
	}
	r.set(flows)
	if got := readWord(conn, "two", time.Minute); got != "two" {
		t.Errorf("%q came back, want what had been held", got)
	}
	r.set(down)
	if got := exchangeWord(conn, "six", time.Minute); got != "" {
		t.Errorf("%q came back through a line that is down", got)
	}
	if got := exchangeWord(dial(), "six", time.Minute); got != "" {
		t.Errorf("%q came back through a new line", got)
	}
	r.set(flows)
	if got := exchangeWord(dial(), "ten", time.Minute); got != "ten" {
		t.Errorf("%q came back, want ten", got)
	}
}

// exchangeWord sends a word and returns what has come back in time, which is
// nothing when the line is broken.
func exchangeWord(conn net.Conn, word string, limit time.Duration) string {
	if _, err := io.WriteString(conn, word); err != nil {
		return ""
	}
	return readWord(conn, word, limit)
}

func readWord(conn net.Conn, word string, limit time.Duration) string {
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err.Error()
	}
	got := make([]byte, len(word))
	n, _ := io.ReadFull(conn, got) // what has come tells enough
	return string(got[:n])
}
