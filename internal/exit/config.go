// Package exit is a relay's end of streams: it judges BEGIN by the exit policy,
// looks names up, connects, and copies.
package exit

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/options"
)

// Config is what an exit may do.
type Config struct {
	// Policy decides where streams may go: see WholePolicy. It has a last word
	// about every address.
	Policy netdoc.ExitPolicy
	// Private lets streams out to addresses that are not public, as far as the
	// policy does, and lets lookups answer with them.
	Private bool
	// IPv6 lets streams out to IPv6 addresses, as far as the policy does.
	IPv6 bool
	// Nameservers are asked in turn; none: those of /etc/resolv.conf.
	Nameservers []netip.AddrPort
	// Source4 and Source6 are the addresses that connections come from; invalid:
	// the kernel's choice.
	Source4, Source6 netip.Addr
	// ConnectTimeout bounds a connection's opening, all addresses together; zero:
	// 30 seconds.
	ConnectTimeout time.Duration
	// MaxConns bounds the connections of the process, and MaxPerCircuit those of
	// one circuit, which also gets no more than about a quarter of what is free;
	// zero: 16,384 and 1,024.
	MaxConns, MaxPerCircuit int
}

// Check reports what cannot be used.
func (c *Config) Check() error {
	if len(c.Policy) > 5000 {
		return options.Wrong("ExitPolicy", "%d rules are too many", len(c.Policy))
	}
	if !c.Policy.Decides() {
		return options.Wrong("ExitPolicy", "it has no last rule, which says what becomes of all other addresses")
	}
	if len(c.Nameservers) > 8 {
		return options.Wrong("Nameservers", "%d name servers: 8 are enough", len(c.Nameservers))
	}
	for _, a := range []struct {
		name string
		addr netip.Addr
		six  bool
	}{{"IPv4", c.Source4, false}, {"IPv6", c.Source6, true}} {
		if a.addr.IsValid() && a.addr.Is6() != a.six {
			return fault.New(fault.Config, "exit: the source address for %s is of the other family", a.name)
		}
	}
	if c.MaxConns < 0 || c.MaxPerCircuit < 0 || c.ConnectTimeout < 0 {
		return fault.New(fault.Config, "exit: a negative limit")
	}
	return nil
}

func (c *Config) withDefaults() Config {
	out := *c
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&out.MaxConns, 16384)
	def(&out.MaxPerCircuit, 1024)
	if out.ConnectTimeout == 0 {
		out.ConnectTimeout = 30 * time.Second
	}
	return out
}

// Stats counts what an exit did.
type Stats struct {
	Streams                        atomic.Int64 // open now
	Opened, Refused, Failed        atomic.Uint64
	Resolves, CacheHits, DNSErrors atomic.Uint64
	BytesOut, BytesIn              atomic.Uint64 // to and from the outside
}

// Options are the exit's surroundings.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
	// Sockets bounds the connections of the process as Config's MaxConns does:
	// what its file descriptors allow. Zero: no further bound.
	Sockets int
	// Own are the relay's own addresses, to which nothing is let out.
	Own []netip.Addr
	// Inside tells ports of the network itself, to which nothing is let out: the
	// network would carry its own traffic, over and over. Nil: none.
	Inside func(netip.AddrPort) bool
	// Judge says of the link that a circuit came by whether streams may leave by
	// the circuit: zero, or the reason why not. Nil: they may.
	Judge func(*channel.Link) cell.EndReason
	Stats *Stats
}

// DefaultPolicy is C tor's: the ports that are mostly abused are refused (mail,
// file sharing); all others are open.
func DefaultPolicy() netdoc.ExitPolicy {
	var p netdoc.ExitPolicy
	for _, r := range []netdoc.PortRange{{Lo: 25, Hi: 25}, {Lo: 119, Hi: 119}, {Lo: 135, Hi: 139}, {Lo: 445, Hi: 445}, {Lo: 563, Hi: 563},
		{Lo: 1214, Hi: 1214}, {Lo: 4661, Hi: 4666}, {Lo: 6346, Hi: 6429}, {Lo: 6699, Hi: 6699}, {Lo: 6881, Hi: 6999}} {
		p = append(p, netdoc.PolicyRule{Ports: r}, netdoc.PolicyRule{Six: true, Ports: r})
	}
	return append(p, AcceptAll()...)
}

// RejectPrivate refuses what "private" stands for: every policy begins with it,
// unless its operator says otherwise.
func RejectPrivate() netdoc.ExitPolicy {
	var p netdoc.ExitPolicy
	for _, n := range netaddr.ExitPrivate() {
		p = append(p, netdoc.PolicyRule{Net: n, Ports: netdoc.AllPorts})
	}
	return p
}

// AcceptAll lets everything out.
func AcceptAll() netdoc.ExitPolicy {
	return netdoc.ExitPolicy{{Accept: true, Ports: netdoc.AllPorts}, {Accept: true, Six: true, Ports: netdoc.AllPorts}}
}
