// Package exit is a relay's end of streams: it checks BEGIN against the exit
// policy, resolves names, connects, and copies bytes.
package exit

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/options"
)

// Config has the settings of an exit.
type Config struct {
	// Policy decides where streams may go: see WholePolicy. It must decide about
	// every address.
	Policy netdoc.ExitPolicy
	// Private allows streams to private addresses, if the policy does, and
	// lookups that answer with them.
	Private bool
	// IPv6 allows streams to IPv6 addresses, if the policy does.
	IPv6 bool
	// Nameservers are asked in turn; none: those of /etc/resolv.conf.
	Nameservers []netip.AddrPort
	// Source has the addresses that streams' connections come from.
	Source netaddr.Sources
	// ConnectTimeout bounds the time to open a connection, with all addresses
	// together; zero: 30 seconds.
	ConnectTimeout time.Duration
	// MaxConns bounds the connections of the process, and MaxPerCircuit those of
	// one circuit, which also gets no more than about a quarter of the free ones;
	// zero: 16,384 and 1,024.
	MaxConns, MaxPerCircuit int
}

// Check reports the first setting that cannot be used.
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

// Stats has the counters of an exit.
type Stats struct {
	Streams                        atomic.Int64 // open now
	Opened, Refused, Failed        atomic.Uint64
	Resolves, CacheHits, DNSErrors atomic.Uint64
	BytesOut, BytesIn              atomic.Uint64 // to and from the outside
}

// Options are the settings that the relay, not its operator, gives an exit.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
	// Sockets bounds the connections of the process like MaxConns in Config,
	// according to its file descriptors. Zero: no further bound.
	Sockets int
	// Own are the relay's own addresses, to which the exit never connects.
	Own []netip.Addr
	// Inside reports ports of the network itself, to which the exit does not
	// connect: otherwise the network would carry its own traffic again and again.
	// Nil: none.
	Inside func(netip.AddrPort) bool
	// Judge decides by the link of a circuit whether the circuit may open
	// streams: it returns zero, or the reason for the refusal. Nil: every circuit
	// may.
	Judge func(*channel.Link) cell.EndReason
	Stats *Stats
	// Dial opens all connections, those of streams and those to name servers; nil: they are the
	// kernel's. Tests have virtual networks.
	Dial Dial
}

// Dial opens a connection, as in package net.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// DefaultPolicy returns C tor's default policy: it refuses the ports that are
// abused most (mail, file sharing) and accepts all others.
func DefaultPolicy() netdoc.ExitPolicy {
	var p netdoc.ExitPolicy
	for _, r := range []netdoc.PortRange{{Lo: 25, Hi: 25}, {Lo: 119, Hi: 119}, {Lo: 135, Hi: 139}, {Lo: 445, Hi: 445}, {Lo: 563, Hi: 563},
		{Lo: 1214, Hi: 1214}, {Lo: 4661, Hi: 4666}, {Lo: 6346, Hi: 6429}, {Lo: 6699, Hi: 6699}, {Lo: 6881, Hi: 6999}} {
		p = append(p, netdoc.PolicyRule{Ports: r}, netdoc.PolicyRule{Six: true, Ports: r})
	}
	return append(p, AcceptAll()...)
}

// reducedPorts are what C tor's ReducedExitPolicy accepts.
const reducedPorts = "20-23 43 53 79-81 88 110 143 194 220 389 443 464 465 531 543-544 554 563 587 636 706 749 873 902-904 981 989-995 " +
	"1194 1220 1293 1500 1533 1677 1723 1755 1863 2082-2083 2086-2087 2095-2096 2102-2104 3128 3389 3690 4321 4643 5050 5190 5222-5223 5228 " +
	"5900 6660-6669 6679 6697 8000 8008 8074 8080 8082 8087-8088 8232-8233 8332-8333 8443 8888 9418 9999 10000 11371 18080-18081 18089 " +
	"19294 19638 50002 64738"

// ReducedPolicy returns C tor's reduced policy: it accepts some 90 ports of well-known
// services, and refuses all others.
func ReducedPolicy() netdoc.ExitPolicy {
	var p netdoc.ExitPolicy
	for ports := range strings.FieldsSeq(reducedPorts) {
		rules, err := netdoc.ParsePolicyLine("accept *:" + ports)
		if err != nil {
			panic("exit: " + err.Error()) // the ports are constants, which a test reads
		}
		p = append(p, rules...)
	}
	return append(p, netdoc.PolicyRule{Ports: netdoc.AllPorts}, netdoc.PolicyRule{Six: true, Ports: netdoc.AllPorts})
}

// RejectPrivate returns the rules that refuse "private". Every policy begins with
// them, unless the operator allows private addresses.
func RejectPrivate() netdoc.ExitPolicy {
	var p netdoc.ExitPolicy
	for _, n := range netaddr.ExitPrivate() {
		p = append(p, netdoc.PolicyRule{Net: n, Ports: netdoc.AllPorts})
	}
	return p
}

// AcceptAll returns the policy that accepts everything.
func AcceptAll() netdoc.ExitPolicy {
	return netdoc.ExitPolicy{{Accept: true, Ports: netdoc.AllPorts}, {Accept: true, Six: true, Ports: netdoc.AllPorts}}
}
