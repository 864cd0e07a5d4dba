package cache

import (
	"crypto/x509"
	"time"
)

// TTL is how long a key will live, 0 when it is absent.
func (m *Memory) TTL(key string) time.Duration {
	e := m.find(key)
	if e == nil {
		return 0
	}
	if e.hash != nil {
		return time.Duration(e.hash.until.Load() - m.since(m.now()))
	}
	return e.expires.Sub(m.now())
}

// Weight is how many bytes the cache believes to hold once it has dropped what
// is too much.
func (m *Memory) Weight() uint64 {
	m.entries.CleanUp()
	return m.entries.WeightedSize()
}

// Patient makes a cache keep its connections however long the server is silent:
// on a busy machine a short pause may be long.
func Patient(cfg ValkeyConfig) ValkeyConfig {
	cfg.patience = time.Hour
	return cfg
}

// OpenTrusting opens a server whose certificate these authorities vouch for.
func OpenTrusting(url string, cfg ValkeyConfig, roots *x509.CertPool) (*Valkey, error) {
	options, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	options = tuned(options)
	options.TLSConfig.RootCAs = roots
	return openValkey(options, cfg), nil
}
