package provider

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/sse"
)

// nameFault gives an error of the network its class and reason. What cannot be
// told apart is a broken connection: the next target may do better.
func nameFault(err error) (llm.FailureClass, llm.Reason) {
	var (
		forbidden *ForbiddenAddressError
		dns       *net.DNSError
		oversized *sse.OversizedError
	)
	switch {
	case errors.As(err, &forbidden):
		return llm.ClassConfiguration, llm.ReasonForbidden
	case errors.As(err, &dns):
		return llm.ClassConnection, llm.ReasonDNS
	case isTLS(err):
		return llm.ClassConnection, llm.ReasonTLS
	case isDial(err):
		return llm.ClassConnection, dialReason(err)
	case errors.As(err, &oversized):
		return llm.ClassConnection, llm.ReasonOversizedEvent
	case errors.Is(err, errTooLarge), errors.Is(err, errEncoding):
		return llm.ClassServerError, llm.ReasonInvalidBody
	case errors.Is(err, io.ErrUnexpectedEOF):
		return llm.ClassConnection, llm.ReasonTruncated
	default:
		return llm.ClassConnection, llm.ReasonReset
	}
}

func isTLS(err error) bool {
	var (
		verify *tls.CertificateVerificationError
		record tls.RecordHeaderError
		alert  tls.AlertError
		host   x509.HostnameError
		signer x509.UnknownAuthorityError
		cert   x509.CertificateInvalidError
	)
	return errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &host) || errors.As(err, &signer) || errors.As(err, &cert) ||
		errors.Is(err, http.ErrSchemeMismatch)
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// dialReason tells a time-out of the system's own from a refusal; a host or a
// network that cannot be reached refuses, too.
func dialReason(err error) llm.Reason {
	if errors.Is(err, syscall.ETIMEDOUT) {
		return llm.ReasonConnectTimeout
	}
	return llm.ReasonRefused
}
