// Package relay is a relay: its keys, its links and circuits, its descriptor and
// publication, and its defences. It connects the packages channel, circuit, exit
// and dirclient.
package relay

import (
	"cmp"
	"context"
	"crypto/rsa"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/transport"
)

// Config has the settings of a relay.
type Config struct {
	Network *netdir.Network
	DataDir string // keys and directory cache; made with mode 0700
	KeyDir  string // of the keys, also made with mode 0700; empty: "keys" in DataDir
	Log     *slog.Logger

	Nickname string // 1 to 19 letters and digits
	Contact  string // how to reach the operator

	// Family are the operator's other relays: "$FINGERPRINT". FamilyIDs are the
	// families whose keys, kept with the relay's own, sign its family
	// certificates: a public key in base64, or "*" for every family key there.
	Family, FamilyIDs []string

	// Listen are the ORPort's addresses, one of IPv4 at least; port 0 picks one.
	Listen []netip.AddrPort
	// Advertise are the addresses at which others reach the relay: one of IPv4,
	// and optionally one of IPv6. Port 0 is the listener's. Empty: those of Listen.
	Advertise []netip.AddrPort
	// DirListen is the address at which the relay serves its directory cache over
	// plain HTTP; invalid: none. ExtraInfo makes the cache keep extra-info
	// documents too.
	DirListen netip.AddrPort
	ExtraInfo bool
	// DirPort is the advertised port; zero: none. A relay with DirListen sets it.
	DirPort uint16
	// NoDir keeps the relay from serving the directory.
	NoDir bool

	// Outbound has the source addresses of links and the like, and those that transports are
	// asked to use. Those of streams are in Exit.
	Outbound struct{ OR, PT netaddr.Sources }

	// Dial opens the connections to other relays, and OpenPort the ORPort and the DirPort; nil: they are of the
	// kernel's TCP. Others are for a network that is not the kernel's, such as an emulated one: their connections
	// may have no socket. All limits hold for them too. What leaves an exit does not go this way.
	Dial     func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	OpenPort func(at netip.AddrPort) (net.Listener, error)
	// NewRSA makes RSA keys of a number of bits; nil: rsa.GenerateKey.
	NewRSA func(bits int) (*rsa.PrivateKey, error)
	// Documents has what other relays of the process know of the network; nil: this one fetches everything itself, and
	// keeps it in DataDir.
	Documents *netdir.Shared

	// Exit configures an exit; nil: the relay is no exit.
	Exit *exit.Config

	// Rate bounds the bytes a second that all links together read, and the bytes
	// a second that they write; zero: no bound. Burst is how many bytes may come
	// at once; zero: as many as Rate.
	Rate, Burst uint64
	// Accounting bounds the bytes of an interval.
	Accounting Accounting
	// MaxAdvertisedBandwidth bounds the bandwidth in the descriptor, in bytes a second;
	// zero: no bound.
	MaxAdvertisedBandwidth uint64
	// AssumeReachable publishes the descriptor without a test of whether others
	// can reach the ORPort.
	AssumeReachable bool
	// NoPublish stops uploads of the descriptor to the authorities.
	NoPublish bool

	// Bridge keeps the relay out of the network's lists: clients need a line of
	// BridgeLines, and get the bridge's descriptor and the directory from its
	// directory cache.
	Bridge bool
	// Transports are the pluggable transports of the bridge, besides its ORPort,
	// with their listening addresses (a transport without one chooses a port) and
	// options.
	Transports       []pt.TransportLine
	TransportListen  map[string]netip.AddrPort
	TransportOptions map[string]ptspec.Args
	// TransportDir is where transports keep their keys; empty: "pt_state" in DataDir.
	TransportDir string
	// Inside are transports inside this process, by name.
	Inside map[string]transport.Server

	// MaxMemory bounds what peers can make the relay hold, in bytes (see package
	// account); zero: no bound.
	MaxMemory int64
	// MemoryOption is the operator's option of which MaxMemory is seven eighths, or its default,
	// and MemoryWhy says in a few words why it is so much. Both are only told.
	MemoryOption uint64
	MemoryWhy    string
	// ShutdownWait is how long open circuits may continue when the relay ends;
	// zero: 30 seconds, negative: not at all.
	ShutdownWait time.Duration
	// OfflineMaster says that the Ed25519 master key is kept elsewhere: the relay
	// neither makes nor reads it.
	OfflineMaster bool
	// Version is the version of the program, for the platform line.
	Version string

	// Tap is what the laboratory sees of this relay; nil: nothing.
	Tap *Tap

	// Bounds of the directory server, for tests; zero: its own.
	dirTimeout time.Duration
	dirPerLink int
}

// transportDir returns where transports keep their keys.
func (c *Config) transportDir() string {
	return cmp.Or(c.TransportDir, filepath.Join(c.DataDir, "pt_state"))
}

// platform returns the platform line of the descriptor: the program and its
// operating system.
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
	if _, err := loadFamily(c.keyDir(), ident.RSAID{}, nil, c.FamilyIDs); err != nil {
		return err
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

// padMode returns how links pad. A bridge is a client to the relays that it dials.
func (c *Config) padMode() channel.PaddingMode {
	if c.Bridge {
		return channel.PadFull
	}
	return channel.PadRelay
}

// Published returns the relay's addresses that its descriptor shows, or could show, as far as they
// are known before it runs.
func (c *Config) Published() []netip.Addr {
	var out []netip.Addr
	for _, a := range slices.Concat(c.Advertise, c.Listen) {
		out = appendAddr(out, a.Addr())
	}
	return out
}

// Addresses returns the relay's own addresses: those of Published, and the source addresses,
// which the descriptor does not show.
func (c *Config) Addresses() []netip.Addr {
	out := c.Published()
	for _, s := range c.sources() {
		for _, a := range s.All() {
			out = appendAddr(out, a)
		}
	}
	return out
}

// appendAddr adds an address of one machine that the list lacks.
func appendAddr(list []netip.Addr, a netip.Addr) []netip.Addr {
	if a = netaddr.Plain(a); a.IsUnspecified() || slices.Contains(list, a) {
		return list
	}
	return append(list, a)
}

// sources returns the source addresses of the relay and of its transports.
func (c *Config) sources() []netaddr.Sources {
	out := []netaddr.Sources{c.Outbound.OR, c.Outbound.PT}
	if c.Exit != nil {
		out = append(out, c.Exit.Source)
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

// policy returns the exit policy for the descriptor.
func (c *Config) policy() netdoc.ExitPolicy {
	if c.Exit == nil {
		return netdoc.ExitPolicy{{Ports: netdoc.AllPorts}, {Six: true, Ports: netdoc.AllPorts}}
	}
	return c.Exit.Policy
}
