// Package relay is a relay: its keys, its links and circuits, what it tells
// the directory authorities, and how it defends itself. The rooms that it
// wires together are channel, circuit, exit and dirclient.
package relay

import (
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/pt"
)

// Config is what a relay needs to be told.
type Config struct {
	Network *netdir.Network
	DataDir string // keys and directory cache; made with mode 0700
	Log     *slog.Logger

	Nickname string // 1 to 19 letters and digits
	Contact  string // how to reach the operator

	// Family are the operator's other relays: "$FINGERPRINT". FamilyIDs are the
	// families whose keys, among the relay's, vouch for it: a public key in
	// base64, or "*" for every key that is there.
	Family, FamilyIDs []string

	// Listen are the ORPort's addresses, one of IPv4 at least; port 0 picks one.
	Listen []netip.AddrPort
	// Advertise are the addresses that others reach the relay at: one of IPv4,
	// and perhaps one of IPv6. Empty: Listen's.
	Advertise []netip.AddrPort
	// DirListen is where the relay serves its directory cache over plain HTTP;
	// invalid: nowhere. ExtraInfo has the cache keep extra-info documents too.
	DirListen netip.AddrPort
	ExtraInfo bool
	// DirPort is advertised unless it is zero. A relay with DirListen sets it.
	DirPort uint16
	// NoDir keeps the relay from serving the directory.
	NoDir bool

	// Exit lets streams out; nil: the relay is no exit.
	Exit *exit.Config

	// Rate bounds what all links together read, and what they write, in bytes a
	// second; Burst is how much may come at once, in bytes. Zero: no bound, and
	// as much as Rate.
	Rate, Burst uint64
	// MaxAdvertised bounds the bandwidth that the descriptor says, in bytes a
	// second; zero: no bound.
	MaxAdvertised uint64
	// AssumeReachable publishes the descriptor without the relay's own test of
	// whether its ORPort can be reached.
	AssumeReachable bool
	// NoPublish keeps the descriptor from the authorities.
	NoPublish bool

	// Bridge keeps the relay out of the network's lists: clients are told of it
	// by BridgeLines, and get its descriptor and the directory from Dir.
	Bridge bool
	// Transports are what clients may reach the bridge by, besides its ORPort,
	// with where each listens (others choose a port) and its options.
	Transports       []pt.TransportLine
	TransportListen  map[string]netip.AddrPort
	TransportOptions map[string]pt.Args

	// MaxMemory bounds what peers make the relay hold, in bytes (see package
	// account); zero: no bound.
	MaxMemory int64
	// ShutdownWait is how long a relay goes on with the circuits that it has
	// when it is asked to end; zero: 30 seconds, negative: not at all.
	ShutdownWait time.Duration
	// OfflineMaster says that the Ed25519 master key is kept elsewhere: it is
	// neither made nor read.
	OfflineMaster bool
	// Version is the program's, for the platform line.
	Version string
}

// platform is what the descriptor says of the program and its machine.
func (c *Config) platform() string {
	v := c.Version
	if v == "" {
		v = "devel"
	}
	return "Chive " + v + " on " + runtime.GOOS
}

// Check reports the first option that New would refuse.
func (c *Config) Check() error {
	switch {
	case c.Network == nil || len(c.Network.Authorities) == 0:
		return options.Wrong("Network", "a network with authorities is needed")
	case c.DataDir == "":
		return options.Wrong("DataDir", "a relay needs a data directory")
	case !validNickname(c.Nickname):
		return options.Wrong("Nickname", "%q is not 1 to 19 letters and digits", c.Nickname)
	case strings.ContainsAny(c.Contact, "\r\n"):
		return options.Wrong("Contact", "it must be one line")
	case len(c.Listen) == 0:
		return options.Wrong("ORPort", "a relay needs a port that others can reach, such as 192.0.2.1:9001")
	case len(c.Listen) > 8:
		return options.Wrong("ORPort", "%d addresses: 1 to 8 are possible", len(c.Listen))
	}
	if err := c.checkRates(); err != nil {
		return err
	}
	for _, f := range c.Family {
		if _, err := familyMember(f); err != nil {
			return options.Wrong("Family", "%w", err)
		}
	}
	for _, f := range c.FamilyIDs {
		if _, err := familyID(f); f != allFamilies && err != nil {
			return options.Wrong("FamilyIDs", "%w", err)
		}
	}
	main, ok := first4(c.advertised())
	if !ok {
		return options.Wrong("Address", "a relay needs an IPv4 address that others can reach, the ORPort's or one given here")
	}
	if ip := main.Addr(); !c.Network.Testing.AllowPrivateAddresses && !netaddr.Public(ip) {
		return options.Wrong("Address", "others cannot reach %v, which is private: give the address that they see", ip)
	}
	if c.Bridge && c.NoDir {
		return options.Wrong("NoDirCache", "a bridge has to serve the directory: its clients have no other")
	}
	if c.DirListen.IsValid() && (c.NoDir || c.Bridge) {
		return options.Wrong("DirPort", "only a relay that serves the directory to everybody can have one")
	}
	if c.Bridge && c.Exit != nil {
		return options.Wrong("ExitPolicy", "a bridge cannot be an exit")
	}
	if err := c.checkTransports(); err != nil {
		return err
	}
	if c.Exit != nil {
		return c.Exit.Check()
	}
	return nil
}

// Addresses are the relay's own, as far as they are known before it runs.
func (c *Config) Addresses() []netip.Addr {
	var out []netip.Addr
	for _, a := range slices.Concat(c.Advertise, c.Listen) {
		if a := netaddr.Plain(a.Addr()); !a.IsUnspecified() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

func (c *Config) advertised() []netip.AddrPort {
	if len(c.Advertise) > 0 {
		return c.Advertise
	}
	return c.Listen
}

func first4(list []netip.AddrPort) (netip.AddrPort, bool) {
	for _, a := range list {
		if a.Addr().Unmap().Is4() && !a.Addr().IsUnspecified() {
			return a, true
		}
	}
	return netip.AddrPort{}, false
}

func validNickname(s string) bool {
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 19
}

// policy is the exit policy of the descriptor.
func (c *Config) policy() netdoc.ExitPolicy {
	if c.Exit == nil {
		return netdoc.ExitPolicy{{Ports: netdoc.AllPorts}, {Six: true, Ports: netdoc.AllPorts}}
	}
	return c.Exit.Policy
}
