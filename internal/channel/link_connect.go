package channel

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Connect makes a link over raw, a connection to a relay's ORPort at addr. It runs
// the TLS handshake, then the link handshake (tor-spec, "Negotiating and
// initializing connections"). The relay must prove every identity that want names.
// With cfg.Identity, this end authenticates too, unless it is a bridge. The handshake ends with ctx or
// HandshakeTimeout. Connect owns raw and closes it on failure.
func Connect(ctx context.Context, raw net.Conn, want ident.RelayID, addr netip.AddrPort, cfg *LinkConfig) (*Link, error) {
	return bounded(ctx, raw, cfg, func(ctx context.Context, m *meter) (*Link, error) {
		if want == (ident.RelayID{}) && !cfg.AnyPeer {
			return nil, fault.New(fault.Config, "no expected identity was given")
		}
		raw := overWire(raw, m)
		s, err := cfg.secure(ctx, raw)
		if err != nil {
			return nil, err
		}
		c := &connecting{cfg: cfg, secured: s, cells: newHandshakeCells(s.conn, raw), start: cfg.now()}
		return c.run(want, addr)
	})
}

// connecting is an initiator's handshake after TLS.
type connecting struct {
	secured
	cfg   *LinkConfig
	cells *handshakeCells
	start time.Time

	// What the responder sent, in this order.
	certs        cell.Certs
	challenge    cell.AuthChallenge
	responderLog [32]byte // up to and with AUTH_CHALLENGE
	netinfo      cell.Netinfo
}

func (c *connecting) run(want ident.RelayID, addr netip.AddrPort) (*Link, error) {
	if err := c.cells.write(offeredVersions.AppendCell(nil), "VERSIONS"); err != nil {
		return nil, err
	}
	if err := c.cells.negotiate(); err != nil {
		return nil, err
	}
	// A responder sends all its cells at once. Read its NETINFO before checking its
	// certificates, so that the error for an expired certificate can include the
	// clock skew. Send nothing before that check.
	if err := c.read(); err != nil {
		return nil, err
	}
	now := c.cfg.now()
	tlsSum := sha256.Sum256(c.leaf)
	l := newLink(c.conn, c.cells, &c.netinfo, c.start, now)
	l.Initiator, l.Dialled, l.PeerAuthenticated, l.AsClient = true, addr, true, !c.cfg.proves()
	l.Common = c.cfg.Common && l.AsClient
	peer, err := checkResponder(c.certs, tlsSum, now)
	if err != nil {
		if l.ClockSkewKnown && (errors.Is(err, cert.ErrExpired) || errors.Is(err, cert.ErrNotYetValid)) {
			return nil, fault.New(fault.Protocol, "%w; the peer's clock minus this one is %v", err, l.ClockSkew)
		}
		return nil, err
	}
	if any := c.cfg.AnyPeer && want == (ident.RelayID{}); !any && !want.Matches(peer.id) {
		which := "Ed25519"
		if !want.RSA.IsZero() && !want.RSA.Equal(peer.id.RSA) {
			which = "RSA"
		}
		return nil, fault.New(fault.Protocol, "CERTS: the relay's %s identity is not the expected one", which)
	}
	l.Peer = peer.id
	if err := c.reply(l, peer, tlsSum, now); err != nil {
		return nil, err
	}
	c.cfg.log().Debug("link is open", "peer", l.Peer, "version", l.Version, "group", c.group, "skew", l.ClockSkew)
	return l, nil
}

// read reads CERTS, AUTH_CHALLENGE and NETINFO.
func (c *connecting) read() error {
	const waitingCerts, waitingChallenge, waitingNetinfo = "CERTS", "AUTH_CHALLENGE", "NETINFO"
	cmd, body, err := c.cells.next(waitingCerts)
	if err != nil {
		return err
	}
	if cmd != cell.CmdCerts {
		return unexpected(cmd, waitingCerts)
	}
	if c.certs, err = cell.ParseCerts(body); err != nil {
		return err
	}
	if cmd, body, err = c.cells.next(waitingChallenge); err != nil {
		return err
	}
	if cmd != cell.CmdAuthChallenge {
		return unexpected(cmd, waitingChallenge)
	}
	if c.challenge, err = cell.ParseAuthChallenge(body); err != nil {
		return err
	}
	c.responderLog = digest(c.cells.received)
	if cmd, body, err = c.cells.next(waitingNetinfo); err != nil {
		return err
	}
	if cmd != cell.CmdNetinfo {
		return unexpected(cmd, waitingNetinfo)
	}
	c.netinfo, err = cell.ParseNetinfo(body)
	return err
}

// reply sends NETINFO, and before it CERTS and AUTHENTICATE when this end has an
// identity and is no bridge. If the link is to look like C tor's, l's channel sends NETINFO.
func (c *connecting) reply(l *Link, peer *peerCerts, tlsSum [32]byte, now time.Time) error {
	netinfo := cell.Netinfo{Other: l.Dialled.Addr().Unmap()} // a client sends neither its time nor its address
	var out []byte
	if id := c.cfg.Identity; c.cfg.proves() {
		if !slices.Contains(c.challenge.Methods, cell.AuthMethodEd25519) {
			return fault.New(fault.Protocol, "AUTH_CHALLENGE: methods %v lack Ed25519-SHA256-RFC5705", c.challenge.Methods)
		}
		out = cell.AppendVar(nil, 0, cell.CmdCerts, id.initiator)
		c.cells.sent.Write(out)
		fields := authFields{
			initiatorRSA: id.rsaSHA256, responderRSA: peer.rsaSHA256, initiatorEd: id.ID.Ed, responderEd: peer.id.Ed,
			responderLog: c.responderLog, initiatorLog: digest(c.cells.sent), tlsCert: tlsSum,
		}
		auth, err := fields.authenticate(c.cfg.rand(), c.state, id.auth)
		if err != nil {
			return err
		}
		out = cell.AppendVar(out, 0, cell.CmdAuthenticate, auth.Append(nil))
		netinfo.Time, netinfo.Mine = uint32(now.Unix()), c.cfg.Addrs
	}
	out = cell.AppendFixed(out, 0, cell.CmdNetinfo, netinfo.Append(nil))
	if l.Common {
		l.unsent = out
		return nil
	}
	return c.cells.writeUnhashed(out, "NETINFO")
}

// newLink returns a Link with all fields that both roles learn from NETINFO.
func newLink(conn tlsConn, cells *handshakeCells, peer *cell.Netinfo, start, now time.Time) *Link {
	l := &Link{Conn: conn, Version: cells.version, PeerAddrs: peer.Mine, MyAddr: peer.Other, Leftover: cells.leftover()}
	if peer.Time != 0 && now.Sub(start) < skewMaxHandshake {
		l.ClockSkew, l.ClockSkewKnown = time.Unix(int64(peer.Time), 0).Sub(now).Round(time.Second), true
	}
	return l
}

// tlsError adds a kind to an error of the TLS handshake: a failure of the
// connection, or a violation of the protocol by the peer.
func tlsError(err error) error {
	var op *net.OpError
	alert := errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
	var network net.Error
	if !alert && (errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe)) {
		return ioError(err, "TLS")
	}
	return fault.New(fault.Protocol, "TLS: %w", err)
}
