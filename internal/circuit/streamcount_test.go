package circuit

import (
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestStreamsAreCounted: a hop counts the streams that are open on this side, without
// looking at each, because an onion service asks at every BEGIN.
func TestStreamsAreCounted(t *testing.T) {
	h := &Hop{c: newCircuit(&Env{}, fromRelay)}
	want := func(n int, when string) {
		t.Helper()
		if got := h.Streams(); got != n {
			t.Errorf("%s: %d, not %d", when, got, n)
		}
	}
	accept := func(id uint16) {
		t.Helper()
		if err := h.AcceptStream(id, &taker{}); err != nil {
			t.Fatal(err)
		}
	}
	for id := uint16(1); id <= 5; id++ {
		accept(id)
	}
	if err := h.AcceptStream(5, &taker{}); err == nil {
		t.Error("an identifier was taken twice")
	}
	want(5, "accepted")
	h.RemoveStream(1, false)
	want(4, "closed here")
	h.RemoveStream(1, false)
	want(4, "closed here again")
	h.RemoveStream(1, true)
	want(4, "closed by both")
	h.RemoveStream(2, true)
	h.RemoveStream(2, true)
	want(3, "closed by the peer")
	accept(2)
	want(4, "an identifier that is free again")
	if err := h.OpenStream(func(uint16) StreamReceiver { return &taker{} }); err != nil {
		t.Fatal(err)
	}
	want(5, "opened")
	h.closeStreams(fault.New(fault.Closed, "test"))
	want(0, "the circuit has closed")
}

func BenchmarkStreams(b *testing.B) {
	h := &Hop{c: newCircuit(&Env{}, fromRelay)}
	for id := uint16(1); id <= 2048; id++ {
		if err := h.AcceptStream(id, &taker{}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		h.Streams()
	}
}
