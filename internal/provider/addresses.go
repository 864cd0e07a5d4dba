package provider

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
)

// ForbiddenAddressError says that a provider's host leads to an address that
// no provider can have.
type ForbiddenAddressError struct{ Address netip.Addr }

func (e *ForbiddenAddressError) Error() string {
	return fmt.Sprintf("address %s is link-local or a metadata service", e.Address)
}

// refuseForbidden runs after name resolution, right before each dial, so that
// a name cannot lead where an address may not.
func refuseForbidden(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse the address to dial: %w", err)
	}
	if Forbidden(at.Addr()) {
		return &ForbiddenAddressError{Address: at.Addr().Unmap().WithZone("")}
	}
	return nil
}

// Forbidden reports whether an address is never a provider's: link-local,
// multicast, unspecified, or the metadata service of a cloud. Private and
// loopback addresses are the operator's choice.
func Forbidden(addr netip.Addr) bool {
	addr = embedded(addr.Unmap().WithZone(""))
	if addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() {
		return true
	}
	switch addr.String() {
	case "100.100.100.200", // Alibaba Cloud
		"fd00:ec2::254", // AWS
		"168.63.129.16", // Azure
		"fd20:ce::254",  // Google Cloud
		"192.0.0.192":   // Oracle Cloud
		return true
	}
	return false
}

// embedded returns the IPv4 address that a NAT64 address stands for.
func embedded(addr netip.Addr) netip.Addr {
	b := addr.As16()
	if !addr.Is6() || [12]byte(b[:12]) != [12]byte{1: 0x64, 2: 0xff, 3: 0x9b} {
		return addr
	}
	return netip.AddrFrom4([4]byte(b[12:]))
}
