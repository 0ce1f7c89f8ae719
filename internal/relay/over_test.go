package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
)

// bare is a connection that shows no socket.
type bare struct{ net.Conn }

type bareListener struct{ net.Listener }

func (l bareListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &bare{c}, nil
}

// bareNetwork makes a relay use connections without sockets, and notes to where it opens some.
func bareNetwork(dials *sync.Map) func(*Config) {
	return func(c *Config) {
		c.OpenPort = func(at netip.AddrPort) (net.Listener, error) {
			ln, err := net.Listen("tcp", at.String())
			return bareListener{ln}, err
		}
		c.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			dials.Store(to, true)
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
			if err != nil {
				return nil, err
			}
			return &bare{conn}, nil
		}
	}
}

// TestOver: a relay on a network whose connections have no sockets serves clients, and extends to another relay by that
// network.
func TestOver(t *testing.T) {
	var dials sync.Map
	v := startVictim(t, bareNetwork(&dials))
	next := startVictim(t, bareNetwork(new(sync.Map)))
	u := v.connect(t, nil)
	u.use()
	if _, ok := dials.Load(next.Addrs()[0]); ok {
		t.Fatal("a connection before the circuit is extended")
	}
	c := u.circuit()
	defer c.Close(cell.DestroyNone, context.Canceled)
	if err := c.Extend(within(t), next.Target(), circuit.HopOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := dials.Load(next.Addrs()[0]); !ok {
		t.Error("the next relay was reached some other way")
	}
}

// TestOverSilent: the gate cuts off silent peers of such a network as others.
func TestOverSilent(t *testing.T) {
	v := startVictim(t, bareNetwork(new(sync.Map)), func(r *Relay) { r.gate.handshakes = 2 })
	var silent []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", v.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	silent[0].SetReadDeadline(time.Now().Add(60 * time.Second))
	if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest silent peer is still there: %v", err)
	}
	v.connect(t, nil).use() // it takes the place of another one
}

// TestOverDial: what a relay opens on such a network counts at the gate until it is closed, or has failed.
func TestOverDial(t *testing.T) {
	down := errors.New("the network is down")
	up := false
	cfg := bridgeConfig(t)
	cfg.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
		if !up {
			return nil, down
		}
		a, b := net.Pipe()
		t.Cleanup(func() { b.Close() })
		return a, nil
	}
	v, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer v.closeListeners()
	to := netip.MustParseAddrPort("192.0.2.1:9001")
	counts := func() [3]int64 {
		v.gate.mu.Lock()
		defer v.gate.mu.Unlock()
		return [3]int64{v.gate.open.Load(), v.gate.strangers.Load(), int64(len(v.gate.dialing))}
	}
	if _, err := v.dial(t.Context(), to); !errors.Is(err, down) || counts() != [3]int64{} {
		t.Errorf("after a failure: %v, %v", err, counts())
	}
	up = true
	c, err := v.dial(t.Context(), to)
	if err != nil || counts() != [3]int64{1, 1, 0} {
		t.Fatalf("%v, %v", err, counts())
	}
	if _, err := c.(syscall.Conn).SyscallConn(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a pipe has a socket: %v", err)
	}
	c.Close()
	c.Close()
	if counts() != [3]int64{} {
		t.Errorf("after the end: %v", counts())
	}
}
