package imagefetch

import (
	"net/netip"
	"slices"
)

// Public reports whether an image may be fetched from an address: port 443 of a
// public unicast address. An IPv6 address that stands for an IPv4 address
// counts as what it stands for, if at all.
func Public(to netip.AddrPort) bool {
	return to.Port() == 443 && public(to.Addr())
}

func public(addr netip.Addr) bool {
	// Prefixes do not match an address in a zone, which is never public.
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	inside := func(p netip.Prefix) bool { return p.Contains(addr) }
	switch {
	case addr.Is4():
		return !slices.ContainsFunc(special4, inside)
	case translated.Contains(addr):
		b := addr.As16()
		return public(netip.AddrFrom4([4]byte(b[12:])))
	}
	// IPv4-mapped addresses are not in unicast6 either.
	return unicast6.Contains(addr) && !slices.ContainsFunc(special6, inside)
}

// special4 are the IPv4 blocks that are not for everybody: those of IANA's
// registry of special-purpose addresses that are not globally reachable, and
// multicast.
var special4 = prefixes(
	"0.0.0.0/8",        // this network (RFC 791)
	"10.0.0.0/8",       // private (RFC 1918)
	"100.64.0.0/10",    // shared by providers for their NAT (RFC 6598)
	"127.0.0.0/8",      // loopback (RFC 1122)
	"168.63.129.16/32", // Azure's own services for its machines; not in the registry
	"169.254.0.0/16",   // link-local (RFC 3927), and the metadata of clouds
	"172.16.0.0/12",    // private (RFC 1918)
	"192.0.0.0/24",     // protocol assignments (RFC 6890)
	"192.0.2.0/24",     // documentation (RFC 5737)
	"192.88.99.0/24",   // relays of 6to4, withdrawn (RFC 7526)
	"192.168.0.0/16",   // private (RFC 1918)
	"198.18.0.0/15",    // benchmarks (RFC 2544)
	"198.51.100.0/24",  // documentation (RFC 5737)
	"203.0.113.0/24",   // documentation (RFC 5737)
	"224.0.0.0/4",      // multicast (RFC 5771)
	"240.0.0.0/4",      // reserved (RFC 1112), and broadcast
)

// unicast6 is all of IPv6 that is assigned for global unicast. Loopback, the
// unspecified address, IPv4-mapped and IPv4-compatible ones, link-local,
// site-local and unique local ones, multicast, the discard prefix, segment
// routing and NAT64 within a network lie outside.
var unicast6 = netip.MustParsePrefix("2000::/3")

// special6 are the blocks within unicast6 that are not for everybody.
var special6 = prefixes(
	"2001::/23",     // protocol assignments (RFC 2928): Teredo, benchmarks, ORCHID
	"2001:db8::/32", // documentation (RFC 3849)
	"2002::/16",     // 6to4 (RFC 3056), which holds any IPv4 address
	"3fff::/20",     // documentation (RFC 9637)
)

// translated is how a network that has only IPv6 reaches IPv4 (RFC 6052): the
// last four bytes are the address.
var translated = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}
