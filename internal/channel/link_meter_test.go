package channel

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
)

// TestHandshakeBytes: what a peer may send until its link handshake is done has a bound, and is on
// its account; a link that is open has none.
func TestHandshakeBytes(t *testing.T) {
	memory := account.New(1 << 30)
	m := &meter{account: memory.Address(netip.MustParseAddr("192.0.2.1")).Open(account.Handshake, func(error) {})}
	for n := 0; n < maxHandshakeWire; n += 1 << 10 {
		if err := m.count(1 << 10); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if memory.Used() < maxHandshakeWire {
		t.Error("on its account are", memory.Used())
	}
	if err := m.count(1); !fault.Is(err, fault.Protocol) {
		t.Error("a byte more than may be:", err)
	}
	m.done = true
	if err := m.count(maxHandshakeWire); err != nil {
		t.Error("of an open link:", err)
	}
}

// TestSilentHandshakesComputeNothing: however many peers begin a link handshake and then are silent,
// another one computes.
func TestSilentHandshakesComputeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func(was chan struct{}) { computing = was }(computing)
		computing = make(chan struct{}, 2)
		silence := make(chan struct{})
		for range 3 * cap(computing) {
			go func() {
				m := new(meter)
				m.run(func() { m.wait(func() (int, error) { <-silence; return 0, nil }) })
			}()
		}
		synctest.Wait()
		served := false
		go func() {
			m := new(meter)
			m.run(func() { served = true })
		}()
		synctest.Wait()
		if !served {
			t.Error("it has no turn")
		}
		close(silence)
		synctest.Wait() // they take places once more
	})
}
