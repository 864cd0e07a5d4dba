package config

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Server is the two listeners and the limits of a request.
type Server struct {
	Listen            string        `yaml:"listen" change:"restart" doc:"Address of the data plane, host:port."`
	AdminListen       string        `yaml:"admin_listen" change:"restart" doc:"Address of the operator API and /metrics; loopback only."`
	MaxBody           Size          `yaml:"max_body" check:"min=1B" doc:"Largest request body."`
	MaxInflightBytes  Size          `yaml:"max_inflight_bytes" check:"min=1B" doc:"Bodies held at once, all requests together."`
	RequestTimeout    time.Duration `yaml:"request_timeout" check:"over=0s" doc:"All attempts, retries, fallbacks and waits of a call together, until a stream commits."`
	MaxStream         time.Duration `yaml:"max_stream" check:"over=0s" doc:"Longest stream."`
	WriteTimeout      time.Duration `yaml:"write_timeout" check:"over=0s" doc:"One flush to a slow client."`
	StreamKeepalive   time.Duration `yaml:"stream_keepalive" check:"min=0s" doc:"A stream that is silent for this long is sent a comment; 0 = never."`
	StreamCommitAfter time.Duration `yaml:"stream_commit_after" check:"min=0s" doc:"How long a stream may wait for its first content before its headers are sent, after which a failure is an error event; 0 = headers come with the content."`
	DrainDelay        time.Duration `yaml:"drain_delay" check:"min=0s" doc:"How long to go on listening, answering 503, after SIGTERM; 0 = not at all."`
	DrainTimeout      time.Duration `yaml:"drain_timeout" check:"over=0s" doc:"How long calls in flight may take to end at shutdown."`
	MetricsToken      Secret        `yaml:"metrics_token" check:"visible" doc:"Bearer token asked for on /metrics; empty = none."`
}

func defaultServer() Server {
	return Server{
		Listen:           "127.0.0.1:8080",
		AdminListen:      "127.0.0.1:8081",
		MaxBody:          32 * MiB,
		MaxInflightBytes: GiB,
		RequestTimeout:   10 * time.Minute,
		MaxStream:        time.Hour,
		WriteTimeout:     30 * time.Second,
		StreamKeepalive:  15 * time.Second,
		DrainTimeout:     30 * time.Second,
	}
}

// check holds to loopback what asks nobody who they are: the data plane while
// auth is open, and the admin plane, which has no sign-in.
func (s Server) check(r *report, auth Auth) {
	if auth.Mode == AuthOpen {
		checkLoopback(r, "server.listen", s.Listen, "auth.mode is open, so nobody but this machine may reach it")
	} else {
		checkListener(r, "server.listen", s.Listen)
	}
	checkLoopback(r, "server.admin_listen", s.AdminListen, "operators do not sign in, so nobody but this machine may reach it")

	if r.sound("server.listen", "server.admin_listen") && s.Listen == s.AdminListen && !strings.HasSuffix(s.Listen, ":0") {
		r.fault("server.admin_listen", "is the address of server.listen", "give it a port of its own")
	}
	if r.sound("server.max_body", "server.max_inflight_bytes") && s.MaxInflightBytes < s.MaxBody {
		r.fault("server.max_inflight_bytes", "is less than one body of server.max_body", "give it at least "+s.MaxBody.String())
	}
}

func checkListener(r *report, p path, address string) (loopback bool) {
	if !r.sound(p) {
		return true
	}
	loopback, err := onLoopback(address)
	if err != nil {
		r.faultOfValue(p, "is not an address to listen on", "write host:port, such as 127.0.0.1:8080")
		return true
	}
	return loopback
}

func checkLoopback(r *report, p path, address, why string) {
	if !checkListener(r, p, address) {
		r.faultOfValue(p, "is not a loopback address; "+why, "listen on 127.0.0.1, [::1] or localhost")
	}
}

func onLoopback(address string) (bool, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, errors.New("the port is not a number up to 65535")
	}
	if strings.EqualFold(host, "localhost") {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback(), nil
}

// Log is what the gateway says about itself.
type Log struct {
	Level  string `yaml:"level" check:"oneof=debug|info|warn|error" doc:"Least level that is written."`
	Format string `yaml:"format" check:"oneof=text|json" change:"restart" doc:"How a line is written."`
}

// SlogLevel returns the level as slog knows it.
func (l Log) SlogLevel() slog.Level {
	switch l.Level {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
