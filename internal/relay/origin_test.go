package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/stream"
)

// TestNoProxyOfOneHop: on a client's circuit of one hop, an exit serves only its
// directory; on a circuit that comes from a relay, it opens connections.
func TestNoProxyOfOneHop(t *testing.T) {
	v := startVictim(t, nil, func(r *Relay) { r.origin = r.judgeOrigin })
	world := netip.MustParseAddrPort(v.target.Addr(target.Echo))
	open := func(c *circuit.Circuit) error {
		s, err := stream.Dial(within(t), c.Last(), world.Addr().String(), world.Port())
		if err == nil {
			s.Close()
		}
		return err
	}
	c := v.connect(t, nil).circuit()
	var end *stream.EndError
	if err := open(c); !errors.As(err, &end) || end.Reason != cell.EndTorProtocol {
		t.Errorf("a client's stream: %v", err)
	}
	s, err := stream.BeginDir(c.Last())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()

	now := time.Now()
	keys, err := LoadKeys(t.TempDir(), now, quiet)
	if err != nil {
		t.Fatal(err)
	}
	m := channel.NewManager(&channel.Config{Log: userEnv.Log, Now: time.Now}, &channel.LinkConfig{Rand: rand.Reader, Identity: keys.Link()}, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", a.String())
	})
	t.Cleanup(m.Close)
	ch, err := m.Get(within(t), v.Target())
	if err != nil {
		t.Fatal(err)
	}
	if err := open((&user{t, v, ch}).circuit()); err != nil {
		t.Errorf("a relay's: %v", err)
	}
}
