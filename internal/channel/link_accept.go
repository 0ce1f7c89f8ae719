package channel

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// Accept makes a link over raw, a connection that a client or relay opened to this
// relay's ORPort. It is the responder's side of Connect. cfg.Identity must be set.
// A peer that does not authenticate is a client and has no identity. Accept owns
// raw and closes it on failure.
func Accept(ctx context.Context, raw net.Conn, cfg *LinkConfig) (*Link, error) {
	return bounded(ctx, raw, cfg, func(ctx context.Context, m *meter) (*Link, error) {
		if cfg.Identity == nil {
			return nil, fault.New(fault.Config, "a responder needs an identity")
		}
		under, raw := raw, overWire(raw, m)
		conn := tls.Server(raw, cfg.Identity.server)
		if err := conn.HandshakeContext(ctx); err != nil {
			resetNoTLS(under, m.read, err)
			return nil, tlsError(err)
		}
		a := &accepting{cfg: cfg, conn: conn, cells: newHandshakeCells(conn, raw), start: cfg.now()}
		l, err := a.run(netaddr.Of(raw.RemoteAddr()))
		if cfg.Common && errors.Is(err, io.EOF) {
			_ = conn.CloseWrite() // as Channel.answerEnd
		}
		return l, err
	})
}

// Resettable is a connection that can be closed by a reset, as *net.TCPConn.
type Resettable interface{ SetLinger(seconds int) error }

// resetNoTLS has a connection closed by a reset if it began with something that is no record of TLS. C tor reads the header of
// a record only, so its kernel resets a connection whose other bytes nobody has read.
func resetNoTLS(raw net.Conn, read int, err error) {
	const header = 5
	var no tls.RecordHeaderError
	if c, ok := raw.(Resettable); ok && read > header && errors.As(err, &no) {
		_ = c.SetLinger(0) // an error says that it is closed already
	}
}

// accepting is a responder's handshake after TLS.
type accepting struct {
	cfg   *LinkConfig
	conn  *tls.Conn
	cells *handshakeCells
	start time.Time

	responderLog [32]byte   // up to and with AUTH_CHALLENGE
	certs        *peerCerts // the initiator's; nil until its CERTS arrived
	proved       bool       // a valid AUTHENTICATE arrived
}

func (a *accepting) run(peer netip.Addr) (*Link, error) {
	if err := a.cells.negotiate(); err != nil {
		return nil, err
	}
	if err := a.send(peer); err != nil {
		return nil, err
	}
	netinfo, err := a.read()
	if err != nil {
		return nil, err
	}
	l := newLink(a.conn, a.cells, &netinfo, a.start, a.cfg.now())
	l.Common = a.cfg.Common
	if a.proved {
		l.Peer, l.PeerAuthenticated = a.certs.id, true
	}
	a.cfg.log().Debug("link is open", "authenticated", a.proved, "peer", l.Peer, "version", l.Version)
	return l, nil
}

// send sends all cells of a responder in one write.
func (a *accepting) send(peer netip.Addr) error {
	challenge := cell.AuthChallenge{Methods: []uint16{cell.AuthMethodEd25519}}
	if _, err := io.ReadFull(a.cfg.rand(), challenge.Challenge[:]); err != nil {
		return fault.New(fault.Local, "AUTH_CHALLENGE: random bytes: %w", err)
	}
	out := offeredVersions.AppendCell(nil)
	out = cell.AppendVar(out, 0, cell.CmdCerts, a.cfg.Identity.responder)
	out = cell.AppendVar(out, 0, cell.CmdAuthChallenge, challenge.Append(nil))
	a.cells.sent.Write(out)
	a.responderLog = digest(a.cells.sent)
	netinfo := cell.Netinfo{Time: uint32(a.cfg.now().Unix()), Other: peer, Mine: a.cfg.Addrs}
	out = cell.AppendFixed(out, 0, cell.CmdNetinfo, netinfo.Append(nil))
	return a.cells.writeUnhashed(out, "NETINFO")
}

// read reads the initiator's cells up to NETINFO. An initiator with an identity
// sends CERTS and AUTHENTICATE before it, in this order. As in C tor, CERTS without
// AUTHENTICATE is allowed and proves nothing, but it must be valid.
func (a *accepting) read() (cell.Netinfo, error) {
	for {
		waiting := "CERTS or NETINFO"
		switch {
		case a.proved:
			waiting = "NETINFO"
		case a.certs != nil:
			waiting = "AUTHENTICATE or NETINFO"
		}
		cmd, body, err := a.cells.next(waiting)
		if err != nil {
			return cell.Netinfo{}, err
		}
		switch {
		case cmd == cell.CmdNetinfo:
			// C tor ends such a link, and a prober may ask which program this is. ParseNetinfo passes the address over.
			if t := body[4]; t != 4 && t != 6 {
				return cell.Netinfo{}, fault.New(fault.Protocol, "NETINFO: an address of the unknown type %d", t)
			}
			return cell.ParseNetinfo(body)
		case cmd == cell.CmdCerts && a.certs == nil:
			certs, err := cell.ParseCerts(body)
			if err != nil {
				return cell.Netinfo{}, err
			}
			if a.certs, err = checkInitiator(certs, a.cfg.now()); err != nil {
				return cell.Netinfo{}, err
			}
		case cmd == cell.CmdAuthenticate && a.certs != nil && !a.proved:
			if err := a.authenticate(body); err != nil {
				return cell.Netinfo{}, err
			}
			a.proved = true
		default:
			return cell.Netinfo{}, unexpected(cmd, waiting)
		}
	}
}

func (a *accepting) authenticate(body []byte) error {
	m, err := cell.ParseAuthenticate(body)
	if err != nil {
		return err
	}
	id := a.cfg.Identity
	fields := authFields{
		initiatorRSA: a.certs.rsaSHA256, responderRSA: id.rsaSHA256, initiatorEd: a.certs.id.Ed, responderEd: id.ID.Ed,
		responderLog: a.responderLog, initiatorLog: a.cells.before, tlsCert: id.leafSum,
	}
	state := a.conn.ConnectionState()
	return fields.check(&m, &state, a.certs.auth)
}
