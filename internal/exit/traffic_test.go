package exit

import (
	"io"
	"testing"
)

// TestTrafficOfOpenStreams: bytes count when they pass, and not when their stream ends: a relay
// tells the network what it carries by the second.
func TestTrafficOfOpenStreams(t *testing.T) {
	e, c := setup(t, accept(t, "accept *:*"), nil)
	s, err := dial(t, c, "127.0.0.1", echoServer(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const size = 100_000
	for _, n := range []int{size, 1} { // with the second, what was done with the first is over
		if _, err := s.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	in, out := e.opts.Stats.BytesIn.Load(), e.opts.Stats.BytesOut.Load()
	if in != size+1 || out < size || out > size+1 {
		t.Errorf("%d bytes came and %d went, of %d", in, out, size+1)
	}
}
