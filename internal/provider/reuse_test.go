package provider

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatCountsAsStale(t *testing.T) {
	t.Parallel()
	kept := httptrace.GotConnInfo{Conn: &net.TCPConn{}, Reused: true}
	tests := map[string]struct {
		info  httptrace.GotConnInfo
		after time.Duration
		heard bool
		want  bool
	}{
		"a kept connection":                  {info: kept, want: true},
		"a kept connection over TLS":         {info: httptrace.GotConnInfo{Conn: tls.Client(&net.TCPConn{}, &tls.Config{}), Reused: true}, want: true},
		"just in time":                       {info: kept, after: staleWithin - 1, want: true},
		"a server that was at work":          {info: kept, after: staleWithin},
		"a server that has begun its answer": {info: kept, heard: true},
		"a fresh connection":                 {info: httptrace.GotConnInfo{Conn: &net.TCPConn{}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c connection
				c.got(tt.info)
				if tt.heard {
					c.hear()
				}
				if got := c.stale(time.Now().Add(tt.after)); got != tt.want {
					t.Errorf("stale: %v, want %v", got, tt.want)
				}
			})
		})
	}
}
