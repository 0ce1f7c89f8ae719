package linkstack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
)

func direction(r links.Rules) links.Direction { return links.Direction{Rules: r} }

// pair makes a network of two hosts; the first has the rules both ways.
func pair(t *testing.T, r links.Rules) (a, b *Host, n *links.Net) {
	t.Helper()
	n = links.NewNet(1)
	t.Cleanup(n.Close)
	var out [2]*Host
	for i, access := range []links.Access{{Up: direction(r), Down: direction(r)}, {}} {
		h, err := Attach(n, netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), access)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		out[i] = h
	}
	return out[0], out[1], n
}

// accept takes a connection of a listener.
func accept(t *testing.T, l net.Listener) <-chan net.Conn {
	c := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		c <- conn
	}()
	return c
}

// TestConnection: bytes go both ways over a link that loses and delays, the ends of the directions come
// through, and the addresses stay.
func TestConnection(t *testing.T) {
	a, b, _ := pair(t, links.Rules{Rate: 100_000_000, Delay: time.Millisecond, Loss: .01, Jitter: links.Uniform, Spread: time.Millisecond})
	l, err := b.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil || at.Addr() != b.addr {
		t.Fatal(l.Addr(), err)
	}
	accepted := accept(t, l)
	near, err := a.Dial(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	far := <-accepted
	if near.RemoteAddr().String() != at.String() || far.RemoteAddr().String() != near.LocalAddr().String() {
		t.Errorf("%v to %v, and %v to %v", near.LocalAddr(), near.RemoteAddr(), far.LocalAddr(), far.RemoteAddr())
	}
	text := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			way[0].Write(text)
			way[0].(interface{ CloseWrite() error }).CloseWrite()
		}()
		if got, err := io.ReadAll(way[1]); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
		}
	}
	near.Close()
	far.Close()
	if far.RemoteAddr().String() != near.LocalAddr().String() {
		t.Error("a closed connection forgot its addresses")
	}
	if a.Port().Up().Count(links.Lost) == 0 {
		t.Error("the link has lost nothing: nothing went over it")
	}
}

// TestNobody: a port without a listener refuses, an address without a host is silent until the context ends,
// and what is no address of the network is an error.
func TestNobody(t *testing.T) {
	a, b, _ := pair(t, links.Rules{})
	if _, err := a.Dial(t.Context(), netip.AddrPortFrom(b.addr, 9)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := a.Dial(ctx, netip.MustParseAddrPort("10.0.0.9:9"))
		done <- err
	}()
	for a.Port().Up().Count(links.Passed) < 1 { // the SYN
		runtime.Gosched()
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := a.Dial(t.Context(), netip.MustParseAddrPort("[fd00::1]:9")); err == nil {
		t.Error("IPv6 is dialled")
	}
}

// TestClose: a listener's and a host's Close end what waits, and leave no goroutine.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	n := links.NewNet(1)
	h, err := Attach(n, netip.MustParseAddr("10.0.0.1"), links.Access{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(n, h.addr, links.Access{}); err == nil {
		t.Error("two hosts have one address")
	}
	if _, err := Attach(n, netip.MustParseAddr("fd00::1"), links.Access{}); err == nil {
		t.Error("a host has IPv6")
	}
	l, err := h.Listen(80)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Listen(80); err == nil {
		t.Error("a port has two listeners")
	}
	done := make(chan error)
	go func() { _, err := l.Accept(); done <- err }()
	l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if l, err = h.Listen(80); err != nil {
		t.Error("the port is not free:", err)
	}
	p, err := h.ListenPacket(53)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _, err := p.ReadFrom(make([]byte, 10)); done <- err }()
	p.Close()
	if err := <-done; err == nil {
		t.Error("a closed port reads")
	}
	l.Close()
	h.Close()
	h.Close()
	n.Close()
	for runtime.NumGoroutine() > before { // the test's time bounds it
		runtime.Gosched()
	}
}
