package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// metadataHosts answer with a machine's own credentials in one cloud or
// another. Loopback and private addresses are the operator's choice; these are
// nobody's upstream.
var metadataHosts = []string{
	"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
	"metadata.tencentyun.com", "metadata.platformequinix.com", "metadata.packet.net",
}

// metadataAddresses are those outside the link-local ranges.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd20:ce::254"),
}

// refuseURL says why an address may not be a provider's base_url, or nothing.
// It looks at what is written; what a name resolves to is checked where it is
// dialled.
func refuseURL(text string) (problem, remedy string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "" || u.Opaque != "":
		return "is not a URL", "write it in full, such as https://api.openai.com/v1"
	case u.Scheme != "http" && u.Scheme != "https":
		return "is neither http nor https", "write http:// or https://"
	case u.Hostname() == "":
		return "names no host", "write it in full, such as https://api.openai.com/v1"
	case !isPort(u.Port()):
		return "has a port that does not exist", "use one from 1 to 65535"
	case u.User != nil:
		return "holds a user or password", "put the credential into api_key"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "has a query or fragment", "end it with the path"
	}
	return refuseHost(u.Hostname())
}

func isPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func refuseHost(host string) (problem, remedy string) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if slices.Contains(metadataHosts, host) {
		return "is a cloud's metadata service", "name the provider itself"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		if endsInNumber(host) {
			return "has a host that is neither a name nor a whole IP address", "write the address as a.b.c.d or [a:b::c]"
		}
		return "", ""
	}
	switch ip = embedded(ip.WithZone("")); {
	case ip.IsUnspecified(), ip.IsMulticast():
		return "is not the address of one machine", "name the provider itself"
	case ip.IsLinkLocalUnicast():
		return "is a link-local address", "name the provider itself"
	case slices.Contains(metadataAddresses, ip):
		return "is a cloud's metadata service", "name the provider itself"
	}
	return "", ""
}

// endsInNumber reports whether some resolvers would take a name for an IPv4
// address in another notation: 2852039166, 0xa9fea9fe, 169.254.43518.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 10, 64)
	return err == nil || strings.HasPrefix(last, "0x")
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// embedded returns the IPv4 address that an IPv6 address only wraps.
func embedded(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	if ip.Is4() {
		return ip
	}
	b := ip.As16()
	switch {
	case ip.IsLoopback(), ip.IsUnspecified():
		return ip
	case nat64.Contains(ip), compatible.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	default:
		return ip
	}
}
