package redistest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Monitor keeps everything that the server is asked from now on, commands of
// scripts included, until stop, which returns it.
func (s *Server) Monitor() (stop func() string) {
	s.t.Helper()
	c, err := dial(s.Addr(), patience)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, command := range [][]string{{"AUTH", s.password()}, {"MONITOR"}} {
		if command[len(command)-1] == "" {
			continue
		}
		if _, err := c.do(command...); err != nil {
			s.t.Fatalf("%s: %v", command[0], err)
		}
	}
	if err := c.conn.SetDeadline(time.Time{}); err != nil { // however long the test takes
		s.t.Fatal(err)
	}
	var seen strings.Builder
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			line, err := c.in.ReadString('\n')
			if err != nil {
				return
			}
			seen.WriteString(line)
		}
	})
	return sync.OnceValue(func() string {
		c.close()
		reading.Wait()
		return seen.String()
	})
}

// Contents is every key with what it holds, whatever its type.
func (s *Server) Contents(t testing.TB) string {
	t.Helper()
	read := map[string][]string{
		"string": {"GET"}, "hash": {"HGETALL"}, "set": {"SMEMBERS"},
		"list": {"LRANGE", "0", "-1"}, "zset": {"ZRANGE", "0", "-1"}, "stream": {"XRANGE", "-", "+"},
	}
	var all strings.Builder
	for _, key := range s.Keys() {
		kind, _ := s.must("TYPE", key).(string)
		if kind == "none" {
			continue // it has expired meanwhile
		}
		command, known := read[kind]
		if !known {
			t.Fatalf("the key %q is a %s, which nobody can read", key, kind)
		}
		held := s.must(append([]string{command[0], key}, command[1:]...)...)
		fmt.Fprintf(&all, "%s %s %v\n", kind, key, held)
	}
	return all.String()
}
