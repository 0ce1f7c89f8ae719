package flood

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

// fetchBytes is the size of one download. With fetchEvery it gives the client's
// demand. It is not the largest possible throughput: otherwise the client would use
// all processors even without a flood.
const fetchBytes = 400_000

// relayUser is an honest client that uses circuits through a victim to an exit.
type relayUser struct {
	a            *attack // what it shares with attackers: how to open channels and circuits
	path         []*Peer
	echo, source netip.AddrPort

	pinging, fetching kept
	buf               []byte
}

// kept is a circuit that is used again and again, on a channel of its own, and
// a stream on it.
type kept struct {
	ch     *channel.Channel
	circ   *circuit.Circuit
	stream net.Conn
}

func newRelayUser(victim, exit *Peer, echo, source netip.AddrPort) *relayUser {
	return &relayUser{a: &attack{log: slog.New(slog.DiscardHandler)}, path: []*Peer{victim, exit}, echo: echo, source: source, buf: make([]byte, 64<<10)}
}

// open makes the channel and the circuit, if there is none.
func (k *kept) open(ctx context.Context, a *attack, from netip.Addr, path []*Peer) error {
	if k.circ != nil && k.circ.Err() == nil {
		return nil
	}
	k.close()
	conn, err := dialFrom(ctx, from, path[0].OR)
	if err != nil {
		return err
	}
	if k.ch, err = connect(ctx, newGated(conn), path[0], a); err != nil {
		return err
	}
	if k.circ, err = build(ctx, a, k.ch, nil, path...); err != nil {
		k.close()
	}
	return err
}

func (k *kept) close() {
	if k.stream != nil {
		_ = k.stream.Close() // its circuit goes with it
	}
	if k.ch != nil {
		shutdown(k.ch)
	}
	*k = kept{}
}

// ping sends 64 bytes to the echo service and waits for them.
func (u *relayUser) ping(ctx context.Context) (err error) {
	k := &u.pinging
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	if err := k.open(ctx, u.a, honestAddr, u.path); err != nil {
		return err
	}
	if k.stream == nil {
		s, err := stream.Dial(ctx, k.circ.Last(), u.echo.Addr().String(), u.echo.Port())
		if err != nil {
			return err
		}
		k.stream = s
	}
	defer closeOn(ctx, k.stream)()
	var b [64]byte
	if _, err := k.stream.Write(b[:]); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	_, err = io.ReadFull(k.stream, b[:])
	return fault.Wrap(fault.Network, err)
}

// fetch downloads.
func (u *relayUser) fetch(ctx context.Context, m *meter) (err error) {
	k := &u.fetching
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	if err := k.open(ctx, u.a, honestAddr, u.path); err != nil {
		return err
	}
	s, err := stream.Dial(ctx, k.circ.Last(), u.source.Addr().String(), u.source.Port())
	if err != nil {
		return err
	}
	defer s.Close()
	defer closeOn(ctx, s)()
	if _, err := s.Write(binary.BigEndian.AppendUint64(nil, fetchBytes)); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	for n := 0; n < fetchBytes; {
		got, err := s.Read(u.buf)
		m.add(got)
		if n += got; err != nil && n < fetchBytes {
			return fault.New(fault.Network, "%w: %w", errShort, err)
		}
	}
	return nil
}

// connect makes a link and a circuit, and closes them.
func (u *relayUser) connect(ctx context.Context) error {
	var k kept
	defer k.close()
	return k.open(ctx, u.a, connectAddr, u.path)
}

func (u *relayUser) close() {
	u.pinging.close()
	u.fetching.close()
}
