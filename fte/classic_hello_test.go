package fte

import (
	"crypto/rand"
	"net"
	"testing"
	"time"
)

// TestClassicHelloOfAnotherLength has peers that know the key, which may be
// the public one, begin with a record that is longer than a negotiation: the
// server must refuse it at once and read no more of it.
func TestClassicHelloOfAnotherLength(t *testing.T) {
	acceptor, err := Classic{}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	p := acceptor.(*classicServer).p
	w, err := p.request.Words()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newClassicSealer(&p.cfg.Key, w, rand.Reader, MaxClassicCell)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{negotiateLen + 1, 10_000, MaxClassicCell} {
		head, tail, _ := s.room()
		cell, err := s.seal(make([]byte, head+n+tail), head, n)
		if err != nil {
			t.Fatal(err)
		}
		cell = cell[:len(cell)-1] // never whole
		raw, peer := net.Pipe()
		go func() {
			for range 4 {
				if _, err := peer.Write(cell); err != nil {
					return
				}
			}
			peer.Close()
		}()
		raw.SetDeadline(time.Now().Add(20 * time.Second))
		c := acceptor.Wrap(raw)
		if err := c.Handshake(); err == nil {
			t.Errorf("a record of %d bytes is taken for a negotiation", n)
		}
		if held := len(c.in.bytes()); held > wireFrame {
			t.Errorf("%d bytes are held of a record of %d", held, n)
		}
		raw.Close()
		c.in.drop()
	}
}
