// Package netfile reads and writes network files: TOML files with the
// authorities that a client of a Tor network trusts for directory information,
// and the caches that it asks first. It also converts the lines of a torrc.
package netfile

import (
	"encoding"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/tomlfile"
)

// file is the TOML form.
type file struct {
	Name      string      `toml:"name"`
	Authority []authority `toml:"authority,omitempty"`
	Fallback  []fallback  `toml:"fallback,omitempty"`
	Testing   *relaxed    `toml:"testing,omitempty"`
}

type authority struct {
	Nickname string   `toml:"nickname"`
	V3Ident  string   `toml:"v3ident"`
	RSA      string   `toml:"rsa"`
	Ed25519  string   `toml:"ed25519,omitempty"`
	ORPort   []string `toml:"orport"`
	DirPort  string   `toml:"dirport,omitempty"`
}

type fallback struct {
	RSA     string   `toml:"rsa"`
	Ed25519 string   `toml:"ed25519,omitempty"`
	ORPort  []string `toml:"orport"`
}

type relaxed struct {
	AllowPrivateAddresses  *bool  `toml:"allow_private_addresses"`
	EnforceDistinctSubnets *bool  `toml:"enforce_distinct_subnets"`
	VotingInterval         string `toml:"voting_interval,omitempty"`
}

// keys lists the keys of all tables, for suggestions.
var keys = []string{
	"name", "authority", "fallback", "testing",
	"nickname", "v3ident", "rsa", "ed25519", "orport", "dirport",
	"allow_private_addresses", "enforce_distinct_subnets", "voting_interval",
}

// Parse reads a network file. what is its name in errors. Errors have kind
// Config and name the wrong entry.
func Parse(what string, doc []byte) (*netdir.Network, error) {
	var f file
	if err := tomlfile.Decode(what, doc, &f, keys); err != nil {
		return nil, err
	}
	n, err := f.network()
	if err != nil {
		return nil, fault.New(fault.Config, "%s: %w", what, err)
	}
	return n, nil
}

// Of returns the network whose MarshalText writes a network file: a network of
// the public package, which shows nothing else of its inside.
func Of(n encoding.TextMarshaler) (*netdir.Network, error) {
	doc, err := n.MarshalText()
	if err != nil {
		return nil, err
	}
	return Parse("network", doc)
}

func (f *file) network() (*netdir.Network, error) {
	n := &netdir.Network{Name: f.Name, Testing: netdir.DefaultTesting()}
	if err := f.Testing.apply(&n.Testing); err != nil {
		return nil, err
	}
	for i, a := range f.Authority {
		out, err := a.parse()
		if err != nil {
			return nil, fault.New(fault.Config, "authority %d (%q): %w", i+1, a.Nickname, err)
		}
		n.Authorities = append(n.Authorities, out)
	}
	for i, b := range f.Fallback {
		out, err := b.parse()
		if err != nil {
			return nil, fault.New(fault.Config, "fallback %d: %w", i+1, err)
		}
		n.Fallbacks = append(n.Fallbacks, out)
	}
	return n, check(n)
}

func (t *relaxed) apply(out *netdir.Testing) error {
	if t == nil {
		return nil
	}
	if t.AllowPrivateAddresses != nil {
		out.AllowPrivateAddresses = *t.AllowPrivateAddresses
	}
	if t.EnforceDistinctSubnets != nil {
		out.EnforceDistinctSubnets = *t.EnforceDistinctSubnets
	}
	if t.VotingInterval != "" {
		d, err := time.ParseDuration(t.VotingInterval)
		if err != nil || d < minInterval || d > maxInterval {
			return fault.New(fault.Config, "testing: voting_interval %q is not a duration from %v to %v", t.VotingInterval, minInterval, maxInterval)
		}
		out.VotingInterval = d
	}
	return nil
}

func (a *authority) parse() (out netdir.Authority, err error) {
	out.Nickname = a.Nickname
	if out.V3Ident, err = ident.ParseRSAID(a.V3Ident); err != nil {
		return out, fault.New(fault.Config, "v3ident: %w", err)
	}
	if out.RSA, err = ident.ParseRSAID(a.RSA); err != nil {
		return out, fault.New(fault.Config, "rsa: %w", err)
	}
	if out.Ed, err = optionalEd(a.Ed25519); err != nil {
		return out, err
	}
	if out.ORPorts, err = addrPorts(a.ORPort); err != nil {
		return out, fault.New(fault.Config, "orport: %w", err)
	}
	if a.DirPort != "" {
		if out.DirPort, err = addrPort(a.DirPort); err != nil {
			return out, fault.New(fault.Config, "dirport: %w", err)
		}
	}
	return out, nil
}

func (b *fallback) parse() (out netdir.Fallback, err error) {
	if out.RSA, err = ident.ParseRSAID(b.RSA); err != nil {
		return out, fault.New(fault.Config, "rsa: %w", err)
	}
	if out.Ed, err = optionalEd(b.Ed25519); err != nil {
		return out, err
	}
	if out.ORPorts, err = addrPorts(b.ORPort); err != nil {
		return out, fault.New(fault.Config, "orport: %w", err)
	}
	return out, nil
}

func optionalEd(s string) (ident.Ed25519ID, error) {
	if s == "" {
		return ident.Ed25519ID{}, nil
	}
	id, err := ident.ParseEd25519ID(s)
	if err != nil {
		return id, fault.New(fault.Config, "ed25519: %w", err)
	}
	return id, nil
}

func addrPorts(list []string) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for _, s := range list {
		ap, err := addrPort(s)
		if err != nil {
			return nil, err
		}
		out = append(out, ap)
	}
	return out, nil
}

// addrPort reads an IP address and a port. Names are refused, because a
// client's trust must not depend on the system's resolver.
func addrPort(s string) (netip.AddrPort, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil || ap.Port() == 0 || ap.Addr().Zone() != "" || ap.Addr().IsUnspecified() {
		return ap, fault.New(fault.Config, "%q is not an IP address and a port", s)
	}
	return netaddr.PlainPort(ap), nil
}

// Format writes n as a network file that Parse reads back.
func Format(n *netdir.Network) ([]byte, error) {
	if err := check(n); err != nil {
		return nil, err
	}
	f := file{Name: n.Name}
	for _, a := range n.Authorities {
		out := authority{Nickname: a.Nickname, V3Ident: a.V3Ident.String(), RSA: a.RSA.String(), Ed25519: edText(a.Ed), ORPort: texts(a.ORPorts)}
		if a.DirPort.IsValid() {
			out.DirPort = a.DirPort.String()
		}
		f.Authority = append(f.Authority, out)
	}
	for _, b := range n.Fallbacks {
		f.Fallback = append(f.Fallback, fallback{RSA: b.RSA.String(), Ed25519: edText(b.Ed), ORPort: texts(b.ORPorts)})
	}
	if t := n.Testing; t != netdir.DefaultTesting() {
		f.Testing = &relaxed{AllowPrivateAddresses: &t.AllowPrivateAddresses, EnforceDistinctSubnets: &t.EnforceDistinctSubnets}
		if t.VotingInterval != 0 {
			f.Testing.VotingInterval = t.VotingInterval.String()
		}
	}
	return tomlfile.Encode(&f)
}

func edText(id ident.Ed25519ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func texts(ports []netip.AddrPort) []string {
	list := make([]string, len(ports))
	for i, ap := range ports {
		list[i] = ap.String()
	}
	return list
}
