package channel

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// Link is an authenticated TLS link whose link handshake is done: both ends may
// send cells of any kind.
type Link struct {
	Conn      tlsConn
	Version   uint16         // link protocol, 4 or 5
	Initiator bool           // whether this end dialled
	Dialled   netip.AddrPort // the address that it dialled
	AsClient  bool           // this end dialled and proved no identity, so that the peer must open no circuits

	// Peer is the identity that the other end proved. It is zero, and PeerAuthenticated
	// false, for an initiator that did not authenticate (a client).
	Peer              ident.RelayID
	PeerAuthenticated bool

	PeerAddrs []netip.Addr // the peer's own addresses, from its NETINFO; a client sends none
	MyAddr    netip.Addr   // this end's address, as the peer sees it; zero if the peer did not send it

	// ClockSkew is the peer's clock minus this end's; It is known only if the peer sent its
	// time and the handshake was fast enough.
	ClockSkew      time.Duration
	ClockSkewKnown bool

	// Leftover holds the bytes that were read from Conn after the peer's NETINFO: the
	// beginning of the next cells.
	Leftover []byte

	// Common: TLS records have the sizes of C tor's; see LinkConfig.Common.
	Common bool

	unsent []byte // cells of the handshake that the channel sends with the first circuit's cell
	number uint64 // of a link that this process opened; see LinkReport

	read int // bytes that the peer sent until the handshake was done; zero: unknown
}

// Canonical reports whether the peer itself claims the address that was dialled (tor-spec,
// "Canonical connections"). If so, no other host relays the link's bytes, and all circuits
// to this relay may share the link, whatever address they name.
func (l *Link) Canonical(dialled netip.Addr) bool {
	return slices.Contains(l.PeerAddrs, dialled.Unmap())
}

// LinkConfig configures this end of link handshakes. Handshakes do not change it, so it may
// be shared.
type LinkConfig struct {
	Now      func() time.Time // nil means time.Now
	Rand     io.Reader        // nil means crypto/rand
	Identity *RelayKeys       // this relay's keys; nil for a client
	Addrs    []netip.Addr     // this relay's own addresses, sent to peers; empty for a client
	Log      *slog.Logger     // nil discards
	// Memory accounts for what peers make link handshakes hold; nil means no accounting.
	Memory *account.Memory

	// Bridge lets Connect behave like a client's, whatever Identity is: a relay to which a
	// bridge connects must not learn that it is one.
	Bridge bool

	// Common lets the links of a client or a bridge look like C tor's to whoever watches the line: TLS records
	// have the same sizes, which costs processor time, and a client's NETINFO is sent with the first circuit's
	// cell. The channel sends it: without one, the peer waits for it.
	Common bool

	// Timeout bounds a link handshake whose context has no earlier deadline; zero: HandshakeTimeout.
	Timeout time.Duration

	// AnyPeer lets Connect accept any identity that a relay proves, if it is called without
	// an identity: for bridges with unknown fingerprints.
	AnyPeer bool
}

// HandshakeTimeout bounds a link handshake whose context has no earlier deadline, unless LinkConfig has another one.
const HandshakeTimeout = time.Minute

// skewMaxHandshake is how long a handshake may take if its time is used for the clock skew.
const skewMaxHandshake = 3 * time.Minute

// proves reports whether Connect authenticates this end.
func (c *LinkConfig) proves() bool { return c.Identity != nil && !c.Bridge }

func (c *LinkConfig) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func (c *LinkConfig) rand() io.Reader {
	if c.Rand != nil {
		return c.Rand
	}
	return rand.Reader
}

func (c *LinkConfig) log() *slog.Logger {
	if c.Log != nil {
		return c.Log
	}
	return slog.New(slog.DiscardHandler)
}

// curves are offered and accepted in this order: the post-quantum hybrid first; P-256
// because C tor before 2026 offers no other group.
var curves = []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256}

// overWire returns raw with direct writes, if possible. Bytes read from it count on m until
// the handshake is done.
func overWire(raw net.Conn, m *meter) net.Conn {
	if w := newWire(raw); w != nil {
		w.meter = m
		return w
	}
	return &metered{raw, m}
}

// bounded runs a handshake on raw within ctx, the configuration's time and the account of memory,
// closes raw when it fails, and adds a kind to the error.
func bounded(ctx context.Context, raw net.Conn, cfg *LinkConfig, handshake func(context.Context, *meter) (*Link, error)) (*Link, error) {
	address := cfg.Memory.Address(netaddr.Of(raw.RemoteAddr()))
	defer address.Close()
	held := address.Open(account.Handshake, func(error) { raw.SetDeadline(time.Unix(1, 0)) })
	defer held.Close()
	held.Reserve(handshakeCost)
	most := cfg.Timeout
	if most == 0 {
		most = HandshakeTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	stop := context.AfterFunc(ctx, panics.Contain(cfg.Log, nil, func() { raw.SetDeadline(time.Unix(1, 0)) }))
	var l *Link
	var err error
	m := &meter{account: held}
	panics.Contain(cfg.Log, func(e error) { err = e }, func() { m.run(func() { l, err = handshake(ctx, m) }) })()
	// TLS watches ctx too, and may return before the function of AfterFunc was started.
	if interrupted := !stop() || err != nil && ctx.Err() != nil; interrupted {
		kind := fault.Timeout
		if context.Cause(ctx) == context.Canceled {
			kind = fault.Closed
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		err = fault.New(kind, "%w (%w)", err, context.Cause(ctx))
	}
	if err != nil {
		raw.Close()
		return nil, rewrap(err, "link handshake")
	}
	l.read = m.read
	return l, nil
}

// rewrap adds a prefix to an error and keeps its kind.
func rewrap(err error, words string) error {
	return fault.New(fault.KindOf(err), "%s: %w", words, err)
}
