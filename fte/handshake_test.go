package fte

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TestRotation lets a client with the old certificate in while the server
// still has its key, and not after.
func TestRotation(t *testing.T) {
	old, now := serverKeyFor(t), serverKeyFor(t)
	req, resp, err := definitions(t, "", false).Pair("hex")
	if err != nil {
		t.Fatal(err)
	}
	client, err := Protocol{Request: req, Response: resp, Cert: old.Cert()}.Dialer()
	if err != nil {
		t.Fatal(err)
	}
	both, err := Protocol{Request: req, Response: resp, Keys: []*ServerKey{now, old}}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, client, both, []byte("a"), []byte("b"))
	after, err := Protocol{Request: req, Response: resp, Keys: []*ServerKey{now}}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	a, b := tcpPair(t)
	go client.Wrap(a).Handshake()
	if err := after.Wrap(b).Handshake(); !fault.Is(err, fault.Refused) {
		t.Error("a key that was dropped is accepted:", err)
	}
}

// recorded is a peer that sends a recording.
func recorded(b []byte) net.Conn { return script{r: bytes.NewReader(b)} }

// TestReplay plays a whole recorded stream to its server again, and to the
// server after a restart: neither delivers a byte.
func TestReplay(t *testing.T) {
	client, server := chivePair(t, "base64", Protocol{})
	up, _ := roundTrip(t, client, server, noise(5000, 1), noise(10, 2))
	if err := server.Wrap(recorded(up)).Handshake(); !fault.Is(err, fault.Refused) {
		t.Error("a replayed hello is accepted:", err)
	}
	s := server.(*chiveServer)
	// A replay is refused before the server draws a key for its answer.
	drawn := new(countingRand)
	proto := *s.chiveProto
	proto.Rand = drawn
	if err := (&chiveServer{chiveProto: &proto, seen: s.seen}).Wrap(recorded(up)).Handshake(); !fault.Is(err, fault.Refused) || drawn.n > 0 {
		t.Errorf("%d random bytes are drawn for a replay, %v", drawn.n, err)
	}
	restarted := &chiveServer{chiveProto: s.chiveProto, seen: newReplayCache(maxSeen, time.Now())}
	got, err := io.ReadAll(restarted.Wrap(recorded(up)))
	if err == nil || len(got) > 0 {
		t.Errorf("after a restart a replay delivers %d bytes, %v", len(got), err)
	}
	late := &chiveServer{chiveProto: s.chiveProto, seen: newReplayCache(maxSeen, time.Now().Add(restartSlack+time.Minute))}
	if err := late.Wrap(recorded(up)).Handshake(); !fault.Is(err, fault.Refused) {
		t.Error("a hello from well before the start is accepted:", err)
	}
}

// countingRand counts what is drawn.
type countingRand struct{ n int }

func (r *countingRand) Read(p []byte) (int, error) {
	r.n += len(p)
	return rand.Read(p)
}

func TestReplayCache(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := newReplayCache(3, now)
	id := func(b byte) helloID { return helloID{b} }
	if !r.fresh(id(1), now, now) || r.fresh(id(1), now, now) {
		t.Error("an id isn't accepted exactly once")
	}
	if r.fresh(id(2), now.Add(-helloWindow-1), now) || r.fresh(id(2), now.Add(helloWindow+1), now) {
		t.Error("a time outside the window is accepted")
	}
	// As long as a hello's time is accepted, the hello is remembered.
	stamp := now.Add(helloWindow)
	if !r.fresh(id(3), stamp, now) {
		t.Fatal("a fast clock is refused")
	}
	for at := now; !at.After(now.Add(2 * helloWindow)); at = at.Add(helloWindow / 4) {
		if r.fresh(id(3), stamp, at) {
			t.Errorf("forgotten after %v", at.Sub(now))
		}
	}
	now = now.Add(20 * helloWindow)
	for i := range byte(3) {
		if !r.fresh(id(i), now, now) {
			t.Errorf("id %d is refused", i)
		}
	}
	if r.fresh(id(9), now, now) {
		t.Error("the bound isn't kept")
	}
}

// TestHelloUniform counts bits of hellos: a language of all bytes shows them.
func TestHelloUniform(t *testing.T) {
	cert := serverKeyFor(t).Cert()
	const n = 600
	ones := make([]int, 8*clientHelloHead)
	for range n {
		_, hello, err := newClientKex(rand.Reader, cert, nil, flagHybrid, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for i := range ones {
			ones[i] += int(hello[i/8]>>(i%8)) & 1
		}
	}
	for i, c := range ones {
		if c < n/2-100 || c > n/2+100 { // 8 standard deviations
			t.Errorf("bit %d is set in %d of %d hellos", i, c, n)
		}
	}
}

func FuzzServerHello(f *testing.F) {
	req, resp, err := definitions(f, "", false).Pair("dummy")
	if err != nil {
		f.Fatal(err)
	}
	key := serverKeyFor(f)
	srv, err := Protocol{Request: req, Response: resp, Keys: []*ServerKey{key}}.Acceptor()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(make([]byte, 256))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := srv.Wrap(recorded(b)).Handshake(); err == nil {
			t.Fatal("a stranger was let in")
		}
	})
}

// FuzzClientHandshake is a server that doesn't know the key.
func FuzzClientHandshake(f *testing.F) {
	req, resp, err := definitions(f, "", false).Pair("dummy")
	if err != nil {
		f.Fatal(err)
	}
	cert := serverKeyFor(f).Cert()
	var clients []Transport
	for m := range modes {
		c, err := Protocol{Request: req, Response: resp, Cert: cert, Mode: m, Hybrid: m == Bulk}.Dialer()
		if err != nil {
			f.Fatal(err)
		}
		clients = append(clients, c)
	}
	f.Add(uint8(0), make([]byte, 300))
	f.Add(uint8(2), []byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Fuzz(func(t *testing.T, m uint8, b []byte) {
		if err := clients[int(m)%len(clients)].Wrap(recorded(b)).Handshake(); err == nil {
			t.Fatal("a stranger is taken for the server")
		}
	})
}

func TestHandshakeContext(t *testing.T) {
	client, _ := chivePair(t, "hex", Protocol{})
	a, _ := tcpPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Wrap(a).HandshakeContext(ctx); !fault.Is(err, fault.Closed) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
