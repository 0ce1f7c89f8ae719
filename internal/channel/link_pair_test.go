package channel

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// tcpPair returns the two ends of a loopback connection.
func tcpPair(t testing.TB) (dialled, accepted net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if dialled, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled, accepted
}

// handshake runs both ends on a pair of connections.
func handshake(t testing.TB, a, b net.Conn, want ident.RelayID, initiator, responder *LinkConfig) (l, r *Link, lErr, rErr error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, rErr = Accept(ctx, b, responder)
	}()
	l, lErr = Connect(ctx, a, want, netip.MustParseAddrPort("127.0.0.1:9001"), initiator)
	<-done
	return
}

// exchange sends a cell each way.
func exchange(t *testing.T, l, r *Link) {
	t.Helper()
	for _, p := range [][2]*Link{{l, r}, {r, l}} {
		c := cell.AppendFixed(nil, 7, cell.CmdRelay, []byte("payload"))
		go p[0].Conn.Write(c)
		got := make([]byte, cell.Len)
		n := copy(got, p[1].Leftover)
		if _, err := io.ReadFull(p[1].Conn, got[n:]); err != nil || string(got) != string(c) {
			t.Fatalf("% x: %v", got[:12], err)
		}
	}
}

func TestPair(t *testing.T) {
	server := &LinkConfig{Identity: keys(t), Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("2001:db8::1")}}
	other := otherKeys(t)
	for name, c := range map[string]struct {
		initiator *LinkConfig
		peer      ident.RelayID
		pair      func(testing.TB) (net.Conn, net.Conn)
	}{
		"client over TCP":  {&LinkConfig{}, ident.RelayID{}, tcpPair},
		"relay over TCP":   {&LinkConfig{Identity: other, Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, other.ID, tcpPair},
		"client on a pipe": {&LinkConfig{}, ident.RelayID{}, func(testing.TB) (net.Conn, net.Conn) { return net.Pipe() }},
		"relay on a pipe":  {&LinkConfig{Identity: other}, other.ID, func(testing.TB) (net.Conn, net.Conn) { return net.Pipe() }},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := c.pair(t)
			l, r, err, rErr := handshake(t, a, b, keys(t).ID, c.initiator, server)
			if err != nil || rErr != nil {
				t.Fatal(err, rErr)
			}
			if !l.Initiator || l.Version != 5 || l.Peer != keys(t).ID || !l.PeerAuthenticated || !l.ClockSkewKnown || l.ClockSkew.Abs() > 2*time.Second ||
				!l.Canonical(netip.MustParseAddr("::ffff:127.0.0.1")) || !l.Canonical(netip.MustParseAddr("2001:db8::1")) || l.Canonical(netip.MustParseAddr("127.0.0.2")) {
				t.Errorf("initiator: %+v", l)
			}
			if r.Initiator || r.Version != 5 || r.Peer != c.peer || r.PeerAuthenticated == c.peer.RSA.IsZero() || r.ClockSkewKnown == c.peer.RSA.IsZero() ||
				len(r.PeerAddrs) != len(c.initiator.Addrs) || r.MyAddr != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("responder: %+v", r)
			}
			if s := l.Conn.ConnectionState(); s.Version != tls.VersionTLS13 || s.CurveID != tls.X25519MLKEM768 {
				t.Errorf("TLS %x with group %v", s.Version, s.CurveID)
			}
			exchange(t, l, r)
		})
	}
}

func TestConnectNeedsIdentity(t *testing.T) {
	a, b := net.Pipe()
	if _, err := Connect(context.Background(), a, ident.RelayID{}, netip.AddrPort{}, &LinkConfig{}); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
	if _, err := a.Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection was left open: %v", err)
	}
	if _, err := Accept(context.Background(), b, &LinkConfig{}); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}

// TestTimes: a peer that says nothing costs no more than the context's time, or
// HandshakeTimeout.
func TestTimes(t *testing.T) {
	k := keys(t) // outside of the bubble, whose clock is another
	synctest.Test(t, func(t *testing.T) {
		for name, start := range map[string]func(context.Context, net.Conn) error{
			"connect": func(ctx context.Context, c net.Conn) error {
				_, err := Connect(ctx, c, ident.RelayID{RSA: ident.RSAID{1}}, netip.AddrPort{}, &LinkConfig{})
				return err
			},
			"accept": func(ctx context.Context, c net.Conn) error {
				_, err := Accept(ctx, c, &LinkConfig{Identity: k})
				return err
			},
		} {
			run := func(ctx context.Context, want fault.Kind, after time.Duration) {
				t.Helper()
				a, b := net.Pipe()
				go io.Copy(io.Discard, b)
				begin := time.Now()
				if err := start(ctx, a); !fault.Is(err, want) || time.Since(begin) != after {
					t.Errorf("%s: %v (%v) after %v", name, err, fault.KindOf(err), time.Since(begin))
				}
				b.Close()
			}
			run(context.Background(), fault.Timeout, HandshakeTimeout)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			run(ctx, fault.Timeout, time.Second)
			cancel()
			ctx, cancel = context.WithCancel(context.Background())
			time.AfterFunc(2*time.Second, cancel)
			run(ctx, fault.Closed, 2*time.Second)
		}
	})
}

func TestPeerGoesAway(t *testing.T) {
	a, b := tcpPair(t)
	b.Close()
	if _, err := Connect(context.Background(), a, keys(t).ID, netip.AddrPort{}, &LinkConfig{}); !fault.Is(err, fault.Network) {
		t.Errorf("%v: %v", fault.KindOf(err), err)
	}
	a, b = tcpPair(t)
	go func() {
		b.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		io.Copy(io.Discard, b)
	}()
	if _, err := Connect(context.Background(), a, keys(t).ID, netip.AddrPort{}, &LinkConfig{}); !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("%v: %v", fault.KindOf(err), err)
	}
}
