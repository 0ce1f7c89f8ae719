package netfile

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/quantity"
	"github.com/chivenet/chive/internal/tomlfile"
	"github.com/chivenet/chive/internal/torrc"
)

// ImportTorrc makes a network from a torrc of C tor (tor(1)): its DirAuthority,
// FallbackDir, TestingTorNetwork, EnforceDistinctSubnets and voting-interval
// lines. Other options do not describe a network and are ignored, except
// %include, which is an error. name becomes the network's name. Errors name the
// path and the line.
func ImportTorrc(name, path string, text []byte) (*netdir.Network, error) {
	if len(text) > tomlfile.MaxSize {
		return nil, fault.New(fault.Config, "%s: %d bytes, more than the %d that a torrc may have", path, len(text), tomlfile.MaxSize)
	}
	lines, err := torrc.Lines(torrc.Source{Name: path, Text: text}, nil)
	if err != nil {
		return nil, err
	}
	n := &netdir.Network{Name: name, Testing: netdir.DefaultTesting()}
	// TestingTorNetwork changes defaults, on whatever line it is; a line that
	// sets the value itself has priority.
	testingNet, subnets := false, ""
	for _, l := range lines {
		var err error
		switch strings.ToLower(l.Key) {
		case "dirauthority":
			err = importAuthority(n, l.Value)
		case "fallbackdir":
			err = importFallback(n, l.Value)
		case "testingtornetwork":
			testingNet, err = torrc.Bool(l.Value)
		case "enforcedistinctsubnets":
			_, err = torrc.Bool(l.Value)
			subnets = l.Value
		case "v3authvotinginterval":
			n.Testing.VotingInterval, err = interval(l.Value)
		}
		if err != nil {
			return nil, fault.New(fault.Config, "%s:%d: %s: %w", path, l.Number, l.Key, err)
		}
	}
	n.Testing.AllowPrivateAddresses = testingNet
	n.Testing.EnforceDistinctSubnets = subnets == "1" || subnets == "" && !testingNet
	if !testingNet {
		n.Testing.VotingInterval = 0 // the consensus sets it
	}
	if len(n.Authorities) == 0 {
		return nil, fault.New(fault.Config, "%s: no DirAuthority line: C tor would use the public network, which is built into Chive, too; for the other lines there is chive config import", path)
	}
	if err := check(n); err != nil {
		return nil, fault.New(fault.Config, "torrc: %w", err)
	}
	return n, nil
}

// interval reads a voting interval.
func interval(s string) (time.Duration, error) {
	d, err := quantity.Interval(s)
	if err == nil && (d < minInterval || d > maxInterval) {
		err = fault.New(fault.Config, "%q is not an interval from %v to %v", s, minInterval, maxInterval)
	}
	return d, err
}

// importAuthority reads [nickname] [flags] address:dirport fingerprint.
func importAuthority(n *netdir.Network, value string) error {
	var a netdir.Authority
	var orport uint16
	var v6 netip.AddrPort
	f := strings.Fields(value)
	if len(f) > 0 && validNickname(f[0]) {
		a.Nickname, f = f[0], f[1:]
	}
	for ; len(f) > 0 && (f[0][0] < '0' || f[0][0] > '9'); f = f[1:] {
		key, v, _ := strings.Cut(f[0], "=")
		var err error
		switch strings.ToLower(key) {
		case "no-v2", "hs", "no-hs", "weight", "upload", "download", "vote":
			// obsolete, or for connections from relays and authorities
		case "bridge":
			return fault.New(fault.Config, "bridge authorities are not supported")
		case "orport":
			orport, err = torrcPort(v)
		case "ipv6":
			v6, err = addrPort(v)
		case "v3ident":
			a.V3Ident, err = ident.ParseRSAID(v)
		default:
			err = fault.New(fault.Config, "unknown flag")
		}
		if err != nil {
			return fault.New(fault.Config, "%s: %w", key, err)
		}
	}
	if len(f) < 2 {
		return fault.New(fault.Config, "an address with a port and a fingerprint are needed")
	}
	var err error
	if a.DirPort, err = addrPort(f[0]); err != nil {
		return err
	}
	if a.RSA, err = ident.ParseRSAID(strings.Join(f[1:], "")); err != nil {
		return err
	}
	if a.V3Ident.IsZero() {
		return fault.New(fault.Config, "it has no v3ident, so it does not sign consensuses")
	}
	if a.Nickname == "" {
		a.Nickname = "authority" + strconv.Itoa(len(n.Authorities)+1)
	}
	a.ORPorts = orPorts(a.DirPort.Addr(), orport, v6)
	n.Authorities = append(n.Authorities, a)
	return nil
}

// importFallback reads address[:dirport] orport=N id=FINGERPRINT [ipv6=...].
func importFallback(n *netdir.Network, value string) error {
	var b netdir.Fallback
	var orport uint16
	var v6 netip.AddrPort
	var addr netip.Addr
	for _, f := range strings.Fields(value) {
		key, v, option := strings.Cut(f, "=")
		var err error
		switch {
		case !option && addr.IsValid():
			err = fault.New(fault.Config, "a second address")
		case !option:
			addr, err = fallbackAddr(f)
		case key == "orport":
			orport, err = torrcPort(v)
		case key == "id":
			b.RSA, err = ident.ParseRSAID(v)
		case key == "ipv6":
			v6, err = addrPort(v)
		case key == "weight":
		default:
			err = fault.New(fault.Config, "unknown option")
		}
		if err != nil {
			return fault.New(fault.Config, "%s: %w", key, err)
		}
	}
	if !addr.IsValid() || orport == 0 || b.RSA.IsZero() {
		return fault.New(fault.Config, "an address, orport and id are needed")
	}
	b.ORPorts = orPorts(addr, orport, v6)
	n.Fallbacks = append(n.Fallbacks, b)
	return nil
}

// fallbackAddr reads an address with the port of a DirPort, which Chive does not use: it may be 0, or left out.
func fallbackAddr(s string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a, nil
	}
	ap, err := netip.ParseAddrPort(s)
	return ap.Addr(), err
}

func orPorts(addr netip.Addr, port uint16, v6 netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	if port != 0 {
		out = append(out, netip.AddrPortFrom(addr, port))
	}
	if v6.IsValid() {
		out = append(out, v6)
	}
	return out
}

func torrcPort(s string) (uint16, error) {
	p, err := strconv.ParseUint(s, 10, 16)
	if err != nil || p == 0 {
		return 0, fault.New(fault.Config, "%q is not a port", s)
	}
	return uint16(p), nil
}
