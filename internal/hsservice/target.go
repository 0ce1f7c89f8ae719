package hsservice

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/outbound"
	"github.com/chivenet/chive/internal/panics"
)

// Target is where the streams to a virtual port go: a TCP address, or a unix socket.
type Target struct{ Network, Address string }

// String returns what ParseTarget reads.
func (t Target) String() string {
	if t.Network == "unix" {
		return "unix:" + t.Address
	}
	return t.Address
}

// targetTimeout bounds the time to connect to a target.
const targetTimeout = 10 * time.Second

// ParseTarget reads "ADDRESS:PORT", with an IP address, or "unix:PATH". Host names
// are refused: to look one up would tell others about the service.
func ParseTarget(text string) (Target, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if !filepath.IsAbs(path) {
			return Target{}, fault.New(fault.Config, "onion service's target %q: the path of a unix socket must be absolute", text)
		}
		return Target{"unix", path}, nil
	}
	ap, err := netip.ParseAddrPort(text)
	if err != nil || ap.Port() == 0 {
		return Target{}, fault.New(fault.Config, "onion service's target %q: it must be an IP address with a port, or unix: and a path", text)
	}
	return Target{"tcp", ap.String()}, nil
}

// ParsePort reads "PORT=TARGET", or "PORT" alone for the same port of 127.0.0.1.
func ParsePort(text string) (port uint16, t Target, err error) {
	left, right, ok := strings.Cut(text, "=")
	n, err := strconv.ParseUint(left, 10, 16)
	if err != nil || n == 0 {
		return 0, Target{}, fault.New(fault.Config, "onion service's port %q: it must be PORT=TARGET, with a port from 1 to 65535", text)
	}
	if !ok {
		right = "127.0.0.1:" + left
	}
	t, err = ParseTarget(right)
	return uint16(n), t, err
}

// dial connects to a target, from the address that the host's user wants.
func (s *Service) dial(ctx context.Context, t Target) (net.Conn, error) {
	if s.cfg.Dial != nil {
		return s.cfg.Dial(ctx, t.Network, t.Address)
	}
	var d net.Dialer
	if a, err := netip.ParseAddrPort(t.Address); err == nil && t.Network == "tcp" {
		d.LocalAddr, d.Control = outbound.Local(s.cfg.Outbound, a.Addr()), outbound.Late
	}
	return d.DialContext(ctx, t.Network, t.Address)
}

// forward connects a stream to its target. The client hears CONNECTED when the
// target has answered.
func (s *Service) forward(c *Conn, t Target) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.wg.Go(func() {
		defer panics.Recover(s.log, func(error) { _ = c.CloseReason(cell.EndInternal) })
		limited, cancel := context.WithTimeout(s.ctx, targetTimeout)
		defer cancel()
		ctx, stop := c.Wanted(limited)
		conn, err := s.dial(ctx, t)
		left := ctx.Err() != nil && limited.Err() == nil
		stop()
		if left {
			if err == nil {
				conn.Close()
			}
			_ = c.Close() // it is closed; this counts it
			return
		}
		if err != nil {
			s.targetFailed(c.port, err, time.Now())
			_ = c.CloseReason(cell.EndConnectRefused) // an error says that the circuit is closed
			return
		}
		if s.live.Load().ExportCircuit {
			if err := exportCircuit(conn, c.Circuit(), c.port); err != nil {
				s.targetFailed(c.port, err, time.Now())
				_ = c.CloseReason(cell.EndConnectRefused) // an error says that the circuit is closed
				conn.Close()
				return
			}
		}
		if err := c.connected(); err != nil {
			_ = c.Close() // it is closed; this counts it
			conn.Close()
			return
		}
		s.joinTarget(c, conn)
	})
	return nil
}

// warnPause is the time between two warnings about a target: clients decide how often
// it is connected to, and must not fill the log.
const warnPause = time.Minute

func (s *Service) targetFailed(port uint16, err error, now time.Time) {
	s.mu.Lock()
	warn := now.Sub(s.warned[port]) >= warnPause
	if warn {
		s.warned[port] = now
	}
	s.mu.Unlock()
	if warn {
		s.log.Warn("an onion service's target cannot be connected to", "port", port, "err", errors.Unwrap(err))
	}
}

// flushTime is how long a target may take to read what a client sent before its circuit
// closed.
const flushTime = 10 * time.Second

// targetOwner is a connection of an onion service that is joined to its target.
type targetOwner Conn

// Done implements stream.Owner.
func (c *targetOwner) Done() {
	_ = (*Conn)(c).Close() // it is closed; this counts it
	c.s.wg.Done()
}

// joinTarget moves bytes both ways, in the background, until one side has ended. When the
// service closes, it closes the stream's circuit, which ends both.
func (s *Service) joinTarget(c *Conn, conn net.Conn) {
	s.wg.Add(1)
	c.JoinTarget(conn, &s.terms, (*targetOwner)(c))
}

// flushTime returns how long a target may take now.
func (s *Service) flushTime() time.Duration {
	if s.ctx.Err() != nil {
		return 0
	}
	return flushTime
}

// targetReason returns the END reason for an error of a target's connection.
func targetReason(err error) cell.EndReason {
	if errors.Is(err, net.ErrClosed) {
		return cell.EndDone
	}
	return cell.EndConnReset
}
