package relay

import (
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

// TestCrowdClosesNoRelaysLink: when a crowd of strangers' links fills the memory, these links are closed; the link of
// a relay that the consensus lists stays, with its circuits.
func TestCrowdClosesNoRelaysLink(t *testing.T) {
	keys := identity(t)
	v := startVictim(t, nil, func(r *Relay) { r.dos.ids = map[ident.RSAID]bool{keys.ID.RSA: true} })
	u := v.connectAs(t, keys)
	c := u.circuit()
	const crowd, goes = 60, 55
	closed := make(chan struct{}, crowd)
	for range crowd {
		ch := v.connect(t, nil).ch
		go func() {
			<-ch.Done()
			closed <- struct{}{}
		}()
	}
	v.memory.SetBound(v.memory.Used() / 20)
	for timeout, n := within(t), 0; n < goes; n++ {
		select {
		case <-closed:
		case <-timeout.Done():
			t.Fatalf("only %d of %d strangers' links are closed", n, crowd)
		}
	}
	v.memory.SetBound(0)
	if u.ch.Err() != nil || c.Err() != nil {
		t.Fatalf("the relay's link: %v; its circuit: %v", u.ch.Err(), c.Err())
	}
	u.use()
}
