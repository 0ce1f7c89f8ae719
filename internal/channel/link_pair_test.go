package channel

import (
	"bytes"
	"context"
	"crypto/rand"
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
	"github.com/chivenet/chive/internal/cert"
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

// shake runs both ends on a pair of connections.
func shake(t testing.TB, a, b net.Conn, want ident.RelayID, initiator, responder *LinkConfig) (l, r *Link, lErr, rErr error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
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

// links returns the two ends of a link over TCP, to a relay with keys(t).
func links(t testing.TB) (l, r *Link) {
	t.Helper()
	a, b := tcpPair(t)
	k := keys(t)
	l, r, lErr, rErr := shake(t, a, b, k.ID, &LinkConfig{}, &LinkConfig{Identity: k})
	if lErr != nil || rErr != nil {
		t.Fatal(lErr, rErr)
	}
	return l, r
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
	now := time.Now() // both ends' clocks stand: the skew does not depend on how long things take
	clock := func() time.Time { return now }
	server := &LinkConfig{Now: clock, Identity: keys(t), Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("2001:db8::1")}}
	other := otherKeys(t)
	for name, c := range map[string]struct {
		initiator *LinkConfig
		peer      ident.RelayID
		pair      func(testing.TB) (net.Conn, net.Conn)
	}{
		"client over TCP":  {&LinkConfig{Now: clock}, ident.RelayID{}, tcpPair},
		"relay over TCP":   {&LinkConfig{Now: clock, Identity: other, Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, other.ID, tcpPair},
		"client on a pipe": {&LinkConfig{Now: clock}, ident.RelayID{}, func(testing.TB) (net.Conn, net.Conn) { return net.Pipe() }},
		"relay on a pipe":  {&LinkConfig{Now: clock, Identity: other}, other.ID, func(testing.TB) (net.Conn, net.Conn) { return net.Pipe() }},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := c.pair(t)
			l, r, err, rErr := shake(t, a, b, keys(t).ID, c.initiator, server)
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
			if s := r.Conn.(*tls.Conn).ConnectionState(); s.Version != tls.VersionTLS13 || s.CurveID != tls.X25519MLKEM768 {
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

// TestStopsAnywhere: a responder that closes, or falls silent, after any number
// of bytes is a failed connection, not a broken protocol.
func TestStopsAnywhere(t *testing.T) {
	script := bytes.Join([][]byte{versionsCell(), certsCell(get(t, relayA).certs(keys(t).responder)), challengeCell(), netinfoCell()}, nil)
	for n := 0; n < len(script); n += 97 {
		a, b := net.Pipe()
		go func() {
			defer b.Close()
			conn := tls.Server(b, keys(t).server)
			buf := make([]byte, 64)
			if _, err := conn.Read(buf); err == nil {
				conn.Write(script[:n])
				conn.Close()
			}
		}()
		_, err := Connect(context.Background(), a, keys(t).ID, netip.AddrPort{}, &LinkConfig{})
		if !fault.Is(err, fault.Network) || !strings.Contains(err.Error(), "the peer closed the connection") {
			t.Errorf("after %d bytes: %v: %v", n, fault.KindOf(err), err)
		}
	}
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		// The bubble's clock is another: certificates are judged by the outer one.
		cfg := &LinkConfig{Now: func() time.Time { return now }}
		for n := 0; n < len(script); n += 509 {
			a, b := net.Pipe()
			go func() {
				conn := tls.Server(b, keys(t).server)
				if _, err := conn.Read(make([]byte, 64)); err == nil {
					conn.Write(script[:n])
					io.Copy(io.Discard, conn)
				}
			}()
			begin := time.Now()
			_, err := Connect(context.Background(), a, keys(t).ID, netip.AddrPort{}, cfg)
			if !fault.Is(err, fault.Timeout) || time.Since(begin) != HandshakeTimeout || !strings.Contains(err.Error(), "waiting for") {
				t.Errorf("after %d bytes: %v: %v", n, fault.KindOf(err), err)
			}
			b.Close()
		}
	})
}

func TestOldTLSRefused(t *testing.T) {
	a, b := tcpPair(t)
	conf := keys(t).server.Clone()
	conf.MinVersion, conf.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	go func() {
		tls.Server(b, conf).Handshake()
		b.Close()
	}()
	if _, err := Connect(context.Background(), a, keys(t).ID, netip.AddrPort{}, &LinkConfig{}); !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("%v: %v", fault.KindOf(err), err)
	}
	c, d := tcpPair(t)
	go func() {
		tls.Client(c, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).Handshake()
		c.Close()
	}()
	if _, err := Accept(context.Background(), d, &LinkConfig{Identity: keys(t)}); !fault.Is(err, fault.Protocol) {
		t.Errorf("%v: %v", fault.KindOf(err), err)
	}
}

// TestFreshTLS: no link resumes another's TLS session, and each asks for another
// made-up host.
func TestFreshTLS(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		l, r := links(t)
		s := r.Conn.(*tls.Conn).ConnectionState()
		if s.DidResume || l.Conn.(*clientTLS).ConnectionState().DidResume || seen[s.ServerName] || !strings.HasPrefix(s.ServerName, "www.") {
			t.Errorf("%+v", s)
		}
		seen[s.ServerName] = true
	}
}

func TestRelayKeys(t *testing.T) {
	a := get(t, relayA)
	now := time.Now()
	if !a.Expires.After(now.Add(linkLife-time.Hour)) || a.Expires.After(now.Add(linkLife+time.Hour)) {
		t.Errorf("keys expire at %v", a.Expires)
	}
	id := NewRelayIdentity(a.rsa, a.identity, a.signing, now.Add(time.Hour))
	again, err := id.NewRelayKeys(rand.Reader, now)
	if err != nil || again.ID != a.ID || again.leafSum == a.leafSum || again.Expires.After(now.Add(2*time.Hour)) {
		t.Errorf("%+v %v", again, err)
	}
	if _, err := id.NewRelayKeys(rand.Reader, now.Add(3*time.Hour)); !fault.Is(err, fault.Config) || !errors.Is(err, cert.ErrExpired) {
		t.Error(err)
	}
	for name, bad := range map[string]*RelayIdentity{
		"garbage":       {RSA: a.rsa, Signing: a.signing, SigningCert: []byte("garbage")},
		"another key":   {RSA: a.rsa, Signing: a.identity, SigningCert: id.SigningCert},
		"bad signature": {RSA: a.rsa, Signing: a.signing, SigningCert: flip(id.SigningCert)},
	} {
		if _, err := bad.NewRelayKeys(rand.Reader, now); !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHandshakeLeaksNoGoroutine(t *testing.T) {
	k := keys(t)
	now := time.Now()
	synctest.Test(t, func(t *testing.T) { // the bubble waits for every goroutine
		a, b := net.Pipe()
		cfg := &LinkConfig{Identity: k, Now: func() time.Time { return now }}
		l, r, err, rErr := shake(t, a, b, k.ID, &LinkConfig{Now: cfg.Now}, cfg)
		if err != nil || rErr != nil {
			t.Fatal(err, rErr)
		}
		time.Sleep(2 * HandshakeTimeout) // virtual: no deadline of the handshake may be left
		exchange(t, l, r)
		a.Close()
		b.Close()
	})
}
