package cache_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

func TestServerIsReachedOverTLS(t *testing.T) {
	t.Parallel()
	certificate, key, roots := selfSigned(t)
	port := strconv.Itoa(redistest.Port(t))
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no")

	v, err := cache.OpenTrusting("rediss://127.0.0.1:"+port, cache.ValkeyConfig{Timeout: unhurried}, roots)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeCache(t, v) })
	eventually(t, "the server is reached", v.Available)
	if err := v.Set(t.Context(), "k", []byte("v"), time.Minute); err != nil {
		t.Error(err)
	}

	var log journal
	open(t, "rediss://127.0.0.1:"+port, cache.ValkeyConfig{Timeout: unhurried, Log: log.logger()})
	eventually(t, "it is away", func() bool { return strings.Contains(log.String(), away) })
	if got := log.String(); !strings.Contains(got, "certificate") {
		t.Errorf("a server that nobody vouches for is away because of its certificate; the log says:\n%s", got)
	}
}

// selfSigned writes a certificate for this machine and returns the files.
func selfSigned(t *testing.T) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return writePEM(t, "CERTIFICATE", der), writePEM(t, "PRIVATE KEY", secret), roots
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
