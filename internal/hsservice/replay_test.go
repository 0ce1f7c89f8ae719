package hsservice

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TestFullReplays: a point whose memory of introductions is full is replaced, and remembers all
// of them until then. What a stranger can send without the service's secrets is not in it.
func TestFullReplays(t *testing.T) {
	s, p := hosted(t, nowhere{})
	now := time.Now()
	for n := range uint32(100) {
		a := ask()
		a.subcred = [32]byte{9} // a stranger's
		if _, err := s.decrypt(p, binary.BigEndian.AppendUint32(a.message(t, p), n), now); err == nil {
			t.Fatal("it can be read")
		}
	}
	if n := len(p.replayed.seen); n != 0 {
		t.Fatalf("%d introductions of strangers are remembered", n)
	}
	const more = 3
	p.introsLeft = more
	var sent [][]byte
	for n := range byte(2 * more) {
		if full := n >= more; p.old(now) != full {
			t.Fatalf("after %d introductions it is to be replaced: %v", n, !full)
		}
		a := ask()
		a.cookie = n
		sent = append(sent, a.message(t, p))
		if _, err := s.decrypt(p, sent[n], now); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	s.notBefore = now.Add(time.Second) // nothing is launched
	s.tendPointsLocked(now)
	if good := slices.ContainsFunc(s.points, func(o *point) bool { return !o.old(now) }); good || s.tendPointsLocked(now) != time.Second {
		t.Error("nothing takes its place")
	}
	s.mu.Unlock()
	for n, m := range sent {
		if _, err := s.decrypt(p, m, now.Add(time.Hour)); err == nil {
			t.Errorf("introduction %d is taken twice", n)
		}
	}
	p.introsLeft = -maxIntros
	a := ask()
	a.cookie = 99
	if _, err := s.decrypt(p, a.message(t, p), now); !fault.Is(err, fault.Resource) || len(p.replayed.seen) != len(sent) {
		t.Errorf("beyond the bound: %v, %d are remembered", err, len(p.replayed.seen))
	}
}
