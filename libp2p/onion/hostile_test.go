package onion

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	ma "github.com/multiformats/go-multiaddr"
)

// raw connects to a node's onion without libp2p, over the circuit of a name.
func raw(t *testing.T, f *fake, n *node, circuit string) net.Conn {
	t.Helper()
	addr, err := hostPort(n.addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.dial(t.Context(), circuit, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// few is a limiter that lets a number of connections prove who they are at a time.
func few(n int) rcmgr.Limiter {
	l := rcmgr.PartialLimitConfig{Transient: rcmgr.ResourceLimits{ConnsInbound: rcmgr.LimitVal(n)}}
	return rcmgr.NewFixedLimiter(l.Build(rcmgr.InfiniteLimits))
}

// TestSilent: who says nothing, half of a handshake, or nonsense, loses the connection by
// libp2p's time limit at the latest, and holds nothing after that.
func TestSilent(t *testing.T) {
	for name, says := range map[string]string{
		"nothing":  "",
		"half":     "\x13/multistream/1.0.0\n\x07/noise\n\x00\x20abc",
		"nonsense": "GET / HTTP/1.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				n := newNode(t, f, nil, nil)
				listens(t, n)
				c := raw(t, f, n, "raw")
				if _, err := io.WriteString(c, says); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if held := system(t, n); name != "nonsense" && held.NumConnsInbound != 1 {
					t.Errorf("the resource manager does not count it: %+v", held)
				}
				if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, c); err != nil { // to the end
					t.Errorf("the connection did not end: %v", err)
				}
				synctest.Wait()
				idle(t, n)
			})
		})
	}
}

// TestFlood: connections that prove nothing fill all places of the resource manager, and
// an honest peer gets in at once all the same.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		n := newNode(t, f, few(4), nil)
		l := listens(t, n)
		var all []net.Conn
		for i := range 50 {
			all = append(all, raw(t, f, n, fmt.Sprint(i)))
		}
		synctest.Wait()
		ended, soon := 0, time.Now().Add(5*time.Second) // before libp2p's time limit
		for _, c := range all {
			err := c.SetReadDeadline(soon) // which a pipe refuses when it has ended
			if err == nil {
				_, err = io.Copy(io.Discard, c) // what was sent, and the end
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				ended++
			}
		}
		if ended != 50-4 {
			t.Errorf("%d connections ended for others", ended)
		}
		if held := system(t, n); held.NumConnsInbound != 4 {
			t.Errorf("the resource manager holds %+v", held)
		}
		began := time.Now()
		honest := newNode(t, f, nil, nil)
		dials(t, honest, n)
		if c := accepts(t, l); c.RemotePeer() != honest.id {
			t.Errorf("%s came", c.RemotePeer())
		}
		if took := time.Since(began); took != 0 { // of virtual time: nobody waited for a time limit
			t.Errorf("it took %v", took)
		}
	})
}

// TestLate: who was closed for another connection is not let in when the handshake ends at
// the same moment.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, newFake(), nil, nil)
		l := listens(t, n).(*listener)
		here, there := pipe(1)
		defer here.Close()
		scope := l.admit(&conn{there, n.addr, unknown})
		if scope == nil || !l.evict() || l.evict() {
			t.Fatal("there was no connection to close, or more than one")
		}
		if err := scope.SetPeer(n.id); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		scope.Done()
		idle(t, n)
	})
}

// TestOneCircuit: one circuit has the limits that libp2p has for one IP address, and takes
// no place of others.
func TestOneCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		n := newNode(t, f, nil, nil)
		l := listens(t, n)
		for range 50 {
			raw(t, f, n, "one")
		}
		synctest.Wait()
		if held := system(t, n); held.NumConnsInbound != 8 { // libp2p's limit for an address
			t.Errorf("the resource manager holds %+v", held)
		}
		for range 30 { // more than libp2p allows one address at once
			dials(t, newNode(t, f, nil, nil), n)
			accepts(t, l)
		}
	})
}

// TestManyOnions: a host may dial more onions than libp2p allows one place.
func TestManyOnions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a := newNode(t, f, nil, nil)
		for range 30 {
			n := newNode(t, f, nil, nil)
			l := listens(t, n)
			dials(t, a, n)
			accepts(t, l)
		}
	})
}

// TestFullOfPeers: who has proved who it is is not closed for others: they are refused.
func TestFullOfPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		two := rcmgr.PartialLimitConfig{System: rcmgr.ResourceLimits{ConnsInbound: 2}}
		n := newNode(t, f, rcmgr.NewFixedLimiter(two.Build(rcmgr.InfiniteLimits)), nil)
		l := listens(t, n)
		var in []transport.CapableConn
		for range 2 {
			dials(t, newNode(t, f, nil, nil), n)
			in = append(in, accepts(t, l))
		}
		third := newNode(t, f, nil, nil)
		if c, err := third.Dial(t.Context(), n.addr, n.id); err == nil {
			c.Close()
			t.Error("a third one came in")
		}
		for _, c := range in {
			if c.IsClosed() {
				t.Error("one that was in was closed")
			}
		}
	})
}

// TestGate: the gater is asked when a connection comes, and when its peer is known.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a := newNode(t, f, nil, nil)
		for _, g := range []*picky{{accept: true, secured: true}, {accept: true}, {secured: true}} {
			n := newNode(t, f, nil, g)
			l := listens(t, n)
			in := make(chan transport.CapableConn, 1)
			go func() {
				if c, err := l.Accept(); err == nil {
					in <- c
				}
			}()
			c, err := a.Dial(t.Context(), n.addr, n.id)
			synctest.Wait()
			if allowed := g.accept && g.secured; allowed != (len(in) == 1) {
				t.Errorf("%+v: %d came in", g, len(in))
			}
			if !g.accept && err == nil {
				t.Errorf("%+v: the connection came through", g)
			}
			if err == nil {
				c.Close()
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
			select {
			case c := <-in:
				c.Close()
			default:
			}
			synctest.Wait()
			idle(t, n)
		}
	})
}

// picky is a gater that allows some things.
type picky struct{ accept, secured bool }

func (*picky) InterceptPeerDial(peer.ID) bool                { return true }
func (*picky) InterceptAddrDial(peer.ID, ma.Multiaddr) bool  { return true }
func (p *picky) InterceptAccept(network.ConnMultiaddrs) bool { return p.accept }
func (p *picky) InterceptSecured(d network.Direction, _ peer.ID, _ network.ConnMultiaddrs) bool {
	return p.secured || d == network.DirOutbound
}
func (*picky) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }
