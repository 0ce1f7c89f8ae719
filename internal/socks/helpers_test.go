package socks

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// network is a Dialer over the machine's loopback: it knows hosts by name,
// and remembers what it was asked.
type network struct {
	mu    sync.Mutex
	hosts map[string]string // host name -> address to dial
	fail  map[string]error
	asked []Request
	names map[string][]Answer
	gate  chan struct{} // when set, Dial waits for it or for its context

	dialling chan struct{} // when set, hears of every Dial that waits at the gate
}

func (n *network) note(req Request) error {
	if err := req.Permit.Check(req.Host); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, req)
	return n.fail[req.Host]
}

func (n *network) requests() []Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Request(nil), n.asked...)
}

func (n *network) Dial(ctx context.Context, req Request) (net.Conn, error) {
	if err := n.note(req); err != nil {
		return nil, err
	}
	if n.gate != nil {
		if n.dialling != nil {
			n.dialling <- struct{}{}
		}
		select {
		case <-n.gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	addr, ok := n.hosts[req.Host]
	if !ok {
		return nil, Because(NotFound, errors.New("no such host"))
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, Because(ConnRefused, err)
	}
	if _, err := c.Write(req.Early); err != nil {
		return nil, err
	}
	return c, nil
}

func (n *network) Resolve(_ context.Context, req Request) ([]Answer, error) {
	if err := n.note(req); err != nil {
		return nil, err
	}
	if a, ok := n.names[req.Host]; ok {
		return a, nil
	}
	return nil, Because(NotFound, errors.New("no such host"))
}

func (n *network) ResolvePTR(_ context.Context, addr netip.Addr, req Request) ([]Answer, error) {
	if err := n.note(req); err != nil {
		return nil, err
	}
	if a, ok := n.names[addr.String()]; ok {
		return a, nil
	}
	return nil, fault.New(fault.Network, "lookup failed")
}

// start serves s on a loopback port until the test ends.
func start(t testing.TB, s *Server) string {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// peer serves every connection to its address with f until the test ends.
func peer(t testing.TB, f func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(time.Minute))
				f(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

// echo sends back what it gets, and half-closes at its end.
func echo(c *net.TCPConn) {
	io.Copy(c, c)
	c.CloseWrite()
}

func dialTCP(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// say writes to c what a client says.
func say(t testing.TB, c net.Conn, b ...byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// hear reads len(want) bytes and compares.
func hear(t testing.TB, c net.Conn, want ...byte) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c, got)
	if string(got[:n]) != string(want) {
		t.Fatalf("heard %x (%v), want %x", got[:n], err, want)
	}
}

// request5 returns a SOCKS 5 request for a host name.
func request5(cmd byte, host string, port uint16) []byte {
	b := append([]byte{5, cmd, 0, atypName, byte(len(host))}, host...)
	return append(b, byte(port>>8), byte(port))
}

// ok5 is the reply to a CONNECT that worked.
var ok5 = []byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}

// seeing is a network that shows each context of a dial.
type seeing struct {
	*network
	see func(context.Context)
}

func (s seeing) Dial(ctx context.Context, req Request) (net.Conn, error) {
	s.see(ctx)
	return s.network.Dial(ctx, req)
}
