package netdir

import (
	"log/slog"
	"net/netip"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// Flags is a set of a relay's flags.
type Flags = netdoc.Flags

// The flags that matter for choosing relays.
const (
	FlagAuthority     = netdoc.FlagAuthority
	FlagBadExit       = netdoc.FlagBadExit
	FlagExit          = netdoc.FlagExit
	FlagFast          = netdoc.FlagFast
	FlagGuard         = netdoc.FlagGuard
	FlagHSDir         = netdoc.FlagHSDir
	FlagMiddleOnly    = netdoc.FlagMiddleOnly
	FlagNoEdConsensus = netdoc.FlagNoEdConsensus
	FlagRunning       = netdoc.FlagRunning
	FlagStable        = netdoc.FlagStable
	FlagStaleDesc     = netdoc.FlagStaleDesc
	FlagV2Dir         = netdoc.FlagV2Dir
	FlagValid         = netdoc.FlagValid
)

// Relay is one relay of a directory: a small value that may be copied and
// compared. The zero value stands for no relay.
type Relay struct {
	d *Directory
	i int
}

func (r Relay) rel() *relay              { return &r.d.relays[r.i] }
func (r Relay) mdesc() *netdoc.Microdesc { return r.d.mds[r.i] }

// IsZero reports whether r is the zero value.
func (r Relay) IsZero() bool { return r.d == nil }

// Directory returns the directory of the relay.
func (r Relay) Directory() *Directory { return r.d }

// Index returns the relay's index in its directory.
func (r Relay) Index() int { return r.i }

// RSA returns the RSA identity.
func (r Relay) RSA() ident.RSAID { return r.rel().rsa }

// ID returns both identities; the Ed25519 identity is zero if the microdescriptor
// is missing, or if the authorities do not agree on the identity.
func (r Relay) ID() ident.RelayID {
	id := ident.RelayID{RSA: r.rel().rsa}
	if md := r.mdesc(); md != nil && !r.Flags().Has(FlagNoEdConsensus) {
		id.Ed = md.Ed
	}
	return id
}

// Nickname returns the nickname, which identifies nothing: any relay may use it.
func (r Relay) Nickname() string {
	return r.d.nicknames[r.rel().nick : r.rel().nick+uint32(r.rel().nickLen)]
}

// Flags returns the flags.
func (r Relay) Flags() Flags { return r.rel().flags }

// Has reports whether the relay has all of these flags.
func (r Relay) Has(f Flags) bool { return r.rel().flags.Has(f) }

// Bandwidth returns the consensus weight, in kilobytes per second.
func (r Relay) Bandwidth() uint32 { return r.rel().bandwidth }

// Protocols returns the subprotocols that the relay supports.
func (r Relay) Protocols() protover.Set { return r.d.protos[r.rel().proto] }

// IPv4 returns the IPv4 ORPort.
func (r Relay) IPv4() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4(r.rel().addr), r.rel().orPort)
}

// IPv6 returns the IPv6 ORPort, if the relay has one.
func (r Relay) IPv6() (netip.AddrPort, bool) {
	if r.rel().six >= 0 {
		return r.d.six[r.rel().six], true
	}
	if md := r.mdesc(); md != nil {
		for _, ap := range md.ORAddrs {
			if ap.Addr().Is6() {
				return ap, true
			}
		}
	}
	return netip.AddrPort{}, false
}

// DirPort returns the port of the unencrypted directory service; zero: none.
func (r Relay) DirPort() uint16 { return r.rel().dirPort }

// HasMicrodesc reports whether the relay's microdescriptor is present. Without it
// no circuit can be extended to the relay.
func (r Relay) HasMicrodesc() bool { return r.mdesc() != nil }

// MicrodescDigest returns the digest of the microdescriptor that the consensus
// names.
func (r Relay) MicrodescDigest() [32]byte { return r.rel().md }

// Ntor returns the onion key; zero if the microdescriptor is missing.
func (r Relay) Ntor() ident.X25519Key {
	if md := r.mdesc(); md != nil {
		return md.Ntor
	}
	return ident.X25519Key{}
}

// Policy4 returns the relay's exit policy summary for IPv4. It is nil, which
// rejects all, if the microdescriptor is missing.
func (r Relay) Policy4() *netdoc.PortPolicy {
	if md := r.mdesc(); md != nil {
		return md.Policy4
	}
	return nil
}

// Policy6 is Policy4 for IPv6.
func (r Relay) Policy6() *netdoc.PortPolicy {
	if md := r.mdesc(); md != nil {
		return md.Policy6
	}
	return nil
}

// Target returns all that a channel or a circuit needs to reach the relay.
func (r Relay) Target() linkspec.Target {
	t := linkspec.Target{RelayID: r.ID(), Ntor: r.Ntor(), Proto: r.Protocols(), Addrs: []netip.AddrPort{r.IPv4()}}
	if six, ok := r.IPv6(); ok {
		t.Addrs = append(t.Addrs, six)
	}
	return t
}

// LogValue returns the redacted form of the relay's identity.
func (r Relay) LogValue() slog.Value {
	if r.IsZero() {
		return slog.StringValue("none")
	}
	return r.RSA().LogValue()
}

// SameFamily reports whether a and b must not be in one circuit: they name each
// other as family (path-spec), or one family key certifies both (proposal 321).
// The consensus may turn off each rule.
func (d *Directory) SameFamily(a, b Relay) bool {
	ma, mb := a.mdesc(), b.mdesc()
	if ma == nil || mb == nil {
		return false
	}
	fa, fb := ma.Family, mb.Family
	if fa == nil || fb == nil {
		return false
	}
	if d.Param("use-family-lists", 1, 0, 1) == 1 && fa.Lists(b.RSA(), b.Nickname()) && fb.Lists(a.RSA(), a.Nickname()) {
		return true
	}
	return d.Param("use-family-ids", 1, 0, 1) == 1 && fa.SharesID(fb)
}

// SameSubnet reports whether both relays have addresses in one IPv4 /16 or one
// IPv6 /32 (path-spec).
func (d *Directory) SameSubnet(a, b Relay) bool {
	if netaddr.SameSubnet(netip.AddrFrom4(a.rel().addr), netip.AddrFrom4(b.rel().addr)) {
		return true
	}
	a6, ok := a.IPv6()
	if !ok {
		return false
	}
	b6, ok := b.IPv6()
	return ok && netaddr.SameSubnet(a6.Addr(), b6.Addr())
}
