package cache

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	defaultPort = "6379"
	dialTimeout = 2 * time.Second // connect, TLS and greeting together, in the background, unless a call may take longer
	pingGap     = time.Second     // an idle connection is asked this often …
	pingTimeout = time.Second     // … and given up after this long, unless a call may take longer
	bufferSize  = 64 << 10
	ringScale   = 11 // 2,048 commands may be under way on one connection
)

// parseURL reads where the server is. Its errors never quote the URL, which
// may hold a password.
func parseURL(text string) (rueidis.ClientOption, error) {
	var opt rueidis.ClientOption
	u, err := url.Parse(text)
	if err != nil {
		return opt, errors.New("cache url: it is not a URL: escape a password's reserved characters as in %40 for @")
	}
	switch u.Scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		opt.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	default:
		return opt, errors.New("cache url: its scheme must be redis, rediss, valkey or valkeys")
	}
	if u.Hostname() == "" {
		return opt, errors.New("cache url: it names no host, as in redis://host:6379")
	}
	if u.Fragment != "" {
		return opt, errors.New("cache url: nothing may follow a #: escape a password's reserved characters as in %23 for #")
	}
	opt.Username = u.User.Username()
	opt.Password, _ = u.User.Password()
	if opt.SelectDB, err = database(u.Path); err != nil {
		return opt, err
	}
	opt.InitAddress, err = addresses(u)
	return opt, err
}

func database(path string) (int, error) {
	number := strings.Trim(path, "/")
	if number == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return 0, errors.New("cache url: its path must be a database number, as in redis://host:6379/0")
	}
	return n, nil
}

// addresses lists the host and the further nodes. An odd parameter is not named
// in the error: it may be the end of a password that was not escaped.
func addresses(u *url.URL) ([]string, error) {
	nodes := []string{u.Host}
	for name, values := range u.Query() {
		if name != "addr" {
			return nil, errors.New("cache url: of parameters only addr, a further node, may follow")
		}
		nodes = append(nodes, values...)
	}
	for i := range nodes {
		if strings.Contains(nodes[i], "@") {
			return nil, errors.New("cache url: a further node is host:port alone, user and password stand before the first")
		}
		host, port, err := net.SplitHostPort(nodes[i])
		if err != nil || port == "" {
			host, port = strings.Trim(strings.TrimSuffix(nodes[i], ":"), "[]"), defaultPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("cache url: a port must be a number from 1 to 65535")
		}
		nodes[i] = net.JoinHostPort(host, port)
	}
	return nodes, nil
}

// tuned sets what does not come from the URL. Nothing is sent twice, nothing is
// kept on the client's side, and every command is pipelined, so that one that is
// given up does not break the connection of the others.
func tuned(opt rueidis.ClientOption) rueidis.ClientOption {
	opt.DisableRetry = true
	opt.DisableCache = true
	opt.AlwaysPipelining = true
	opt.PipelineMultiplex = -1 // one connection a node: one place where an answer can be missing
	opt.BlockingPipeline = -1  // also a long pipeline goes over it
	opt.RingScaleEachConn = ringScale
	opt.ReadBufferEachConn = bufferSize
	opt.WriteBufferEachConn = bufferSize
	opt.Dialer = net.Dialer{KeepAlive: pingGap}
	opt.ClientName = "breakwater"
	opt.ClientSetInfo = rueidis.DisableClientSetInfo // older servers log it as an unknown command
	opt.ClusterOption.MaxMovedRedirections = 5
	return opt
}
