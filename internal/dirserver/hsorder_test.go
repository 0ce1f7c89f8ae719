package dirserver

import (
	"context"
	"net/netip"
	"testing"
)

// postFrom uploads a service's descriptor through another relay.
func (w *hsWorld) postFrom(addr netip.Addr, s *hsService) {
	w.t.Helper()
	r := &Request{Method: "POST", Path: HSPublishPath, Body: s.descriptor(1, w.now)}
	if got := w.Handle(context.Background(), Peer{Addr: addr, Tunnelled: true, MultiHop: true}, r).Status; got != 200 {
		w.t.Fatal(got)
	}
}

// there counts the services whose descriptors are kept, without a download.
func (w *hsWorld) there(all []*hsService) (n int) {
	for _, s := range all {
		w.mu.Lock()
		if w.descs[s.key.Public()] != nil {
			n++
		}
		w.mu.Unlock()
	}
	return n
}

func relayAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}) }

// TestHSDirOneUploader: who fills the directory through one address pushes out only what came by that address, also
// when they download their own.
func TestHSDirOneUploader(t *testing.T) {
	const honest, room = 30, 60
	size := int64(hsSize(len(newHSService(t).descriptor(1, when))))
	w := newHSWorld(t, room*size+100)
	defer w.Close()
	var good, bad []*hsService
	for i := range honest {
		good = append(good, newHSService(t))
		w.postFrom(relayAddr(i), good[i])
	}
	for range 2 * room {
		s := newHSService(t)
		bad = append(bad, s)
		w.postFrom(farPeer.Addr, s)
		w.get(s.path())
	}
	if n := w.there(good); n != honest {
		t.Errorf("%d of %d honest descriptors are left", n, honest)
	}
	if n := w.there(bad); n != room-honest {
		t.Errorf("the flood has %d places, not the %d that were free", n, room-honest)
	}
	// A newcomer has its place, at the flood's expense.
	late := []*hsService{newHSService(t)}
	w.postFrom(relayAddr(honest), late[0])
	if w.there(good) != honest || w.there(late) != 1 || w.there(bad) != room-honest-1 {
		t.Errorf("after a newcomer: %d honest, %d new, %d of the flood", w.there(good), w.there(late), w.there(bad))
	}
	w.holds(room)
}

// TestHSDirManyUploaders: through many addresses, each with less than its share, a flood pushes out what was downloaded
// less than the flood's own, and nothing else.
func TestHSDirManyUploaders(t *testing.T) {
	const room = 2 * hsUploaderShare
	size := int64(hsSize(len(newHSService(t).descriptor(1, when))))
	w := newHSWorld(t, room*size+100)
	defer w.Close()
	wanted, unused := []*hsService{newHSService(t), newHSService(t)}, []*hsService{newHSService(t)}
	for i, s := range append(wanted[:2:2], unused...) {
		w.postFrom(relayAddr(1000+i), s)
	}
	for _, s := range wanted {
		w.get(s.path())
	}
	for i := range room + 10 {
		w.postFrom(relayAddr(i), newHSService(t))
	}
	if w.there(wanted) != 2 || w.there(unused) != 0 {
		t.Errorf("%d of those that are downloaded are left, %d of the others", w.there(wanted), w.there(unused))
	}
	w.holds(room)
}
