package provider_test

import (
	"net/netip"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/provider"
)

func TestForbidden(t *testing.T) { // ADM-01
	t.Parallel()
	for address, want := range map[string]bool{
		"169.254.169.254":        true,
		"169.254.1.1":            true,
		"::ffff:169.254.169.254": true,
		"64:ff9b::a9fe:a9fe":     true, // the same through NAT64
		"fe80::1":                true,
		"fe80::1%eth0":           true,
		"fd00:ec2::254":          true,
		"fd20:ce::254":           true,
		"100.100.100.200":        true,
		"168.63.129.16":          true,
		"192.0.0.192":            true,
		"224.0.0.1":              true,
		"ff02::1":                true,
		"0.0.0.0":                true,
		"::":                     true,
		"127.0.0.1":              false,
		"::1":                    false,
		"10.0.0.1":               false,
		"192.168.1.1":            false,
		"fd12::1":                false,
		"8.8.8.8":                false,
		"64:ff9b::808:808":       false,
		"2606:4700::1":           false,
	} {
		if got := provider.Forbidden(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s forbidden: %v, want %v", address, got, want)
		}
	}
}
