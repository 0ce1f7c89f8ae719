package client

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/transport"
	"github.com/chivenet/chive/internal/upstream"
)

// Switch is a feature's setting.
type Switch uint8

// Settings of a feature.
const (
	Auto Switch = iota // where relays and the consensus allow it
	On                 // always: only relays that can do it are used
	Off                // never
)

// Config says how a client works. Network is required.
type Config struct {
	Network *netdir.Network
	Dir     string // the network's own directory; empty: the client saves nothing
	Log     *slog.Logger
	Metrics *metrics.Registry
	Hooks   Hooks

	Live // as it is at the start; later, the client's live counts

	NumEntryGuards     int
	NumDirectoryGuards int
	BuildTimeout       time.Duration // zero: learned

	CGO, Congestion, Conflux Switch
	// RejectInternal refuses requests for addresses that are not public, and
	// RejectInternalAnswers such addresses in an exit's answers. Auto: unless the network's
	// own relays have them.
	RejectInternal, RejectInternalAnswers Switch
	// PQ says which hops ML-KEM has to protect, PQSet with what; zero is
	// ML-KEM-768.
	PQ circuit.PQPolicy
	// RequireOnionPQ demands ML-KEM between onion services and their clients, whatever
	// PQ says of relays.
	RequireOnionPQ bool
	PQSet          handshake.PQSet
	// Fast lets what is quicker or handier show, where it is not what C tor's clients do.
	Fast    bool
	Prompt  bool // as in Over
	Padding channel.PaddingMode
	// Rest and Unused are as in Over.
	Rest   bool
	Unused time.Duration
	// CircuitPadding is that of padding machines on circuits.
	CircuitPadding channel.PaddingMode

	// MaxMemory bounds what relays make the client hold, in bytes; zero: no bound.
	MaxMemory int64

	// Inside are transports inside this process, by name. Those in Transports with the same
	// names come first.
	Inside map[string]transport.Client

	// Vanguards says which hops of circuits for onion services stay the same for a while.
	Vanguards guard.VanguardMode
	// OnionMaxEffort bounds the proofs of work for onion services; zero: none are made.
	OnionMaxEffort uint32

	// Upstream is the proxy by which all relays are reached; nil: none. Transports of
	// bridges are told of it.
	Upstream *upstream.Proxy

	// Outbound has the source addresses of the connections that Dial opens if it is nil,
	// those that transports are asked to use, and those of all else: connections to the targets
	// of onion services.
	Outbound struct{ OR, PT, Rest netaddr.Sources }

	// Dial opens connections to relays, to the upstream proxy and to transports, and those of
	// transports in Inside; nil: TCP.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
}
