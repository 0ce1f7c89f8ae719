package fte

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// fromAddr is a connection that came from an address.
type fromAddr struct {
	net.Conn
	addr netip.Addr
}

func addrOf(s string) netip.Addr { return netip.MustParseAddr(s) }

func (c fromAddr) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.addr, 1))
}

// dialFrom connects from an address.
func (l *pipeListener) dialFrom(addr string) net.Conn {
	a, b := net.Pipe()
	l.conns <- fromAddr{b, addrOf(addr)}
	return a
}

const honest, hostile = "192.0.2.1", "2001:db8::66"

// echo answers what l accepts until it is closed.
func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			io.Copy(c, c)
		}()
	}
}

// works sends bytes to echo and back.
func works(t *testing.T, c net.Conn) {
	t.Helper()
	go c.Write([]byte("still there"))
	b := make([]byte, len("still there"))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "still there" {
		t.Errorf("the honest peer hears %q, %v", b, err)
	}
}

// closed reports whether the other end has closed c, or does within a second.
func closed(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(time.Second))
	_, err := c.Read(make([]byte, 1))
	return err == io.EOF || err == io.ErrClosedPipe
}

// TestOneAddressCantFillHandshakes: who opens more connections than there may be
// pushes out their own.
func TestOneAddressCantFillHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := chivePair(t, "hex", Protocol{})
		pl := newPipeListener()
		l := NewListener(pl, ListenConfig{Transport: server, MaxPending: 20})
		defer l.Close()
		go echo(l)
		slow := pl.dialFrom(honest)
		defer slow.Close()
		var all []net.Conn
		for range 200 {
			all = append(all, pl.dialFrom(hostile))
		}
		c := client.Wrap(slow)
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		works(t, c)
		open := 0
		for _, c := range all {
			if !closed(c) {
				open++
			}
			c.Close()
		}
		if open < 18 || open > 20 {
			t.Errorf("%d of 200 are left beside the honest one, of 20 that may be", open)
		}
	})
}

// TestOneAddressCantFillConnections is the same for those who are authenticated.
func TestOneAddressCantFillConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := chivePair(t, "hex", Protocol{})
		pl := newPipeListener()
		l := NewListener(pl, ListenConfig{Transport: server, MaxConns: 10})
		defer l.Close()
		go echo(l)
		join := func(addr string) *Conn {
			c := client.Wrap(pl.dialFrom(addr))
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return c
		}
		early := join(honest)
		defer early.Close()
		open := 0
		var all []*Conn
		for i := range 20 {
			c := join(hostile)
			if i >= 9 && !closed(c.raw) {
				t.Errorf("connection %d is let in", i)
			}
			all = append(all, c)
		}
		late := join(honest)
		defer late.Close()
		works(t, early)
		works(t, late)
		for _, c := range all {
			if !closed(c.raw) {
				open++
			}
			c.Close()
		}
		if open != 8 {
			t.Errorf("%d of the hostile address are left beside two honest ones, of 10 that may be", open)
		}
		synctest.Wait()
		again := join(hostile) // those that were closed count no more
		defer again.Close()
		works(t, again)
	})
}

// sides are both sides of a protocol.
type sides struct {
	name           string
	client, server Transport
}

// pairOf returns Chive's protocol in a mode, or the classic one for kind modes.
func pairOf(t testing.TB, kind Mode) sides {
	t.Helper()
	if kind < modes {
		c, s := chivePair(t, "hex", Protocol{Mode: kind})
		return sides{kind.String(), c, s}
	}
	c, err := Classic{Format: "hex"}.Dialer()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Classic{Format: "hex"}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	return sides{"classic", c, s}
}

// TestMemoryBound has clients that are authenticated send the start of long
// records and nothing else, in every mode and the classic protocol: what they
// make the server hold is bounded, and who holds little is not touched.
func TestMemoryBound(t *testing.T) {
	for kind := range modes + 1 {
		synctest.Test(t, func(t *testing.T) {
			p := pairOf(t, kind)
			const bound = 2 << 20
			pl := newPipeListener()
			l := NewListener(pl, ListenConfig{Transport: p.server, MaxMemory: bound})
			go echo(l)
			good := p.client.Wrap(pl.dialFrom(honest))
			works(t, good)
			var all []*Conn
			for range 40 {
				c := p.client.Wrap(pl.dialFrom(hostile))
				all = append(all, c)
				if c.Handshake() != nil {
					continue // it was the one that had to go
				}
				head, tail, most := c.seal.room()
				most = min(most, wireFrame-head-tail)
				wire, err := c.seal.seal(make([]byte, head+most+tail), head, most)
				if err != nil {
					t.Fatal(p.name, err)
				}
				go c.raw.Write(wire[:len(wire)-1])
				synctest.Wait()
				if used := l.mem.Used(); used > bound {
					t.Errorf("%s: %d bytes are held, the bound is %d", p.name, used, bound)
				}
			}
			gone := 0
			for _, c := range all {
				if closed(c.raw) {
					gone++
				}
			}
			if gone < 5 || gone == len(all) {
				t.Errorf("%s: %d of %d hostile clients were closed", p.name, gone, len(all))
			}
			works(t, good)
			good.Close()
			for _, c := range all {
				c.Close()
			}
			synctest.Wait()
			if used := l.mem.Used(); used != 0 {
				t.Errorf("%s: %d bytes are counted when all are gone", p.name, used)
			}
			l.Close()
		})
	}
}
