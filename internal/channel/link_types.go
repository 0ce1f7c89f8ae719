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
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/panics"
)

// Link is an authenticated TLS link whose link handshake is done: both ends may
// send cells of any kind.
type Link struct {
	Conn      *tls.Conn
	Version   uint16         // link protocol, 4 or 5
	Initiator bool           // whether this end dialled
	Dialled   netip.AddrPort // where to, when it did

	// Peer is the identity that the other end proved. It is zero, and
	// PeerAuthenticated false, for an initiator that proved none (a client).
	Peer              ident.RelayID
	PeerAuthenticated bool

	PeerAddrs []netip.Addr // the peer's own addresses, as its NETINFO says; a client says none
	MyAddr    netip.Addr   // this end's address, as the peer sees it; zero when not told

	// ClockSkew is the peer's clock minus this end's; known only when the peer
	// told its time and the handshake was quick enough to say.
	ClockSkew      time.Duration
	ClockSkewKnown bool

	// Leftover is what was read from Conn behind the peer's NETINFO: the first
	// bytes of the cells to come.
	Leftover []byte
}

// Canonical reports whether the peer itself claims the address that was dialled
// (tor-spec, "Canonical connections"): then nobody relays the link's bytes, and
// circuits to this relay may share the link whichever address they ask for.
func (l *Link) Canonical(dialled netip.Addr) bool {
	return slices.Contains(l.PeerAddrs, dialled.Unmap())
}

// LinkConfig says how this end takes part in link handshakes. It is not changed
// by them and may be shared.
type LinkConfig struct {
	Now      func() time.Time // nil means time.Now
	Rand     io.Reader        // nil means crypto/rand
	Identity *RelayKeys       // this relay's keys; nil for a client
	Addrs    []netip.Addr     // this relay's own addresses, told to peers; empty for a client
	Log      *slog.Logger     // nil discards
	// Memory counts what peers make link handshakes hold; nil: nobody does.
	Memory *account.Memory

	// AnyPeer lets Connect take whatever identity a relay proves, when it is
	// called without one: for bridges whose fingerprint nobody told.
	AnyPeer bool
}

// HandshakeTimeout bounds a link handshake whose context has no nearer deadline.
const HandshakeTimeout = time.Minute

// skewMaxHandshake is how long a handshake may take and still tell the time.
const skewMaxHandshake = 3 * time.Minute

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

// curves are offered and accepted in this order: the post-quantum hybrid first;
// P-256 because C tor of before 2026 has nothing else.
var curves = []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256}

// clientTLS returns the TLS configuration of an initiator. TLS verifies nothing:
// the CERTS cell ties the TLS certificate to the relay's identity.
func (c *LinkConfig) clientTLS() (*tls.Config, error) {
	name, err := cert.RandomHostname(c.rand(), ".com") // browsers name a host, so C tor makes one up
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Time:                   c.now,
		ServerName:             name,
		InsecureSkipVerify:     true,
		MinVersion:             tls.VersionTLS13,
		CurvePreferences:       curves,
		SessionTicketsDisabled: true,
		// One Write is one record from the start: its latency is the scheduler's affair.
		DynamicRecordSizingDisabled: true,
	}, nil
}

// overWire returns raw with direct writes where that can be, and what is read of
// it counted until the handshake is done.
func overWire(raw net.Conn, m *meter) net.Conn {
	if w := newWire(raw); w != nil {
		w.meter = m
		return w
	}
	return &metered{raw, m}
}

// bounded runs a handshake on raw within ctx, HandshakeTimeout and the account
// of memory, closes raw when it fails, and gives the error its kind.
func bounded(ctx context.Context, raw net.Conn, cfg *LinkConfig, handshake func(context.Context, *meter) (*Link, error)) (*Link, error) {
	address := cfg.Memory.Address(remoteAddr(raw.RemoteAddr()))
	defer address.Close()
	held := address.Open(account.Handshake, func(error) { raw.SetDeadline(time.Unix(1, 0)) })
	defer held.Close()
	held.Reserve(handshakeCost)
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, panics.Contain(cfg.Log, nil, func() { raw.SetDeadline(time.Unix(1, 0)) }))
	var l *Link
	var err error
	m := &meter{account: held}
	panics.Contain(cfg.Log, func(e error) { err = e }, func() { m.run(func() { l, err = handshake(ctx, m) }) })()
	if interrupted := !stop(); interrupted {
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
	return l, nil
}

// rewrap puts words in front of an error and keeps its kind.
func rewrap(err error, words string) error {
	return fault.New(fault.KindOf(err), "%s: %w", words, err)
}
