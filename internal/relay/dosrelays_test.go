package relay

import (
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestRelaysOfTheConsensus: after a consensus, both addresses and ports of each relay that it
// lists are known as a relay's, and no others.
func TestRelaysOfTheConsensus(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	d := newDoS(time.Now, true, false)
	d.update(dir)
	n := 0
	for r := range dir.All() {
		all := []netip.AddrPort{r.IPv4()}
		if six, ok := r.IPv6(); ok {
			all = append(all, six)
			n++
		}
		for _, a := range all {
			if other := netip.AddrPortFrom(a.Addr(), a.Port()^1); !d.near(a.Addr()) || !d.knows(a) || d.knows(other) {
				t.Errorf("%v: near: %v, known: %v; another port: %v", a, d.near(a.Addr()), d.knows(a), d.knows(other))
			}
		}
	}
	if n == 0 {
		t.Fatal("no relay has an IPv6 address")
	}
	if d.near(netip.MustParseAddr("192.0.2.200")) || d.near(netip.MustParseAddr("2001:db8:ffff::1")) {
		t.Error("an address of no relay is a relay's")
	}
}

// TestForgetsPeers: an address is forgotten an hour after it was last seen, but not while it
// has a connection or a ban.
func TestForgetsPeers(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := newDoS(func() time.Time { return now }, true, false)
	addr := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, i}) }
	const gone, open, banConn, banCirc, recent = 1, 2, 3, 4, 5
	for i := byte(gone); i < recent; i++ {
		if !d.connect(addr(i)) {
			t.Fatal(i)
		}
		if i != open {
			d.disconnect(addr(i))
		}
	}
	d.peers[netaddr.Peer(addr(banConn))].banConn = now.Add(2 * peerForget)
	d.peers[netaddr.Peer(addr(banCirc))].banCirc = now.Add(2 * peerForget)
	known := func() (out [6]bool) {
		for i := range out {
			out[i] = d.peers[netaddr.Peer(addr(byte(i)))] != nil
		}
		return out
	}
	d.forget()
	if got, want := known(), [6]bool{gone: true, open: true, banConn: true, banCirc: true}; got != want {
		t.Errorf("at once: %v", got)
	}
	now = now.Add(peerForget + time.Second)
	d.connect(addr(recent))
	d.disconnect(addr(recent))
	d.forget()
	if got, want := known(), [6]bool{open: true, banConn: true, banCirc: true, recent: true}; got != want {
		t.Errorf("after an hour: %v", got)
	}
	now = now.Add(2 * peerForget)
	d.forget()
	if got, want := known(), [6]bool{open: true}; got != want {
		t.Errorf("after the bans: %v", got)
	}
}
