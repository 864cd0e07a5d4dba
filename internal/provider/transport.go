package provider

import (
	"net"
	"net/http"
	"time"
)

const (
	keepAlive       = 30 * time.Second
	dialTimeout     = 30 * time.Second // of a dial that its attempt has given up
	idleConnTimeout = 50 * time.Second // load balancers commonly close after 60
	idleConns       = 256              // per provider, kept for reuse
	pingAfter       = 15 * time.Second
	pingTimeout     = 10 * time.Second
	maxHeaderBytes  = 256 << 10
)

// NewDialer returns what dials every upstream: to no link-local and no metadata
// address, whatever a name resolves to.
func NewDialer() *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, ControlContext: refuseForbidden}
}

// NewTransport returns the transport that all calls to one provider share. It
// speaks HTTP/2 where it can and pings connections that have gone quiet, so a
// dead one is found before the next call. It dials no link-local or metadata
// address, follows no redirect, asks for no compression and reads no proxy
// from the environment: where a key is sent is the configuration's decision
// alone. How long a dial may take is the attempt's clock.
func NewTransport() *http.Transport {
	dialer := NewDialer()
	return &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		MaxIdleConns:           idleConns,
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        idleConnTimeout,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
	}
}
