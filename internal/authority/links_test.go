package authority

import (
	"io"
	"net"
	"testing"
)

// TestSilentMakeRoom: peers that connect and send nothing do not keep others out:
// when the bound is reached, the oldest connection is closed.
func TestSilentMakeRoom(t *testing.T) {
	var h handshakes
	var conns, peers []net.Conn
	for range maxHandshakes + 1 {
		a, b := net.Pipe()
		conns, peers = append(conns, a), append(peers, b)
		h.enter(a)
	}
	if _, err := peers[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest was not closed: %v", err)
	}
	if h.order.Len() != maxHandshakes || len(h.place) != maxHandshakes {
		t.Errorf("%d and %d are there", h.order.Len(), len(h.place))
	}
	for _, c := range conns { // the owner of the closed connection leaves, too
		h.leave(c)
		c.Close()
	}
	if h.order.Len() != 0 || len(h.place) != 0 {
		t.Errorf("%d and %d are left", h.order.Len(), len(h.place))
	}
}
