package chive

import "testing"

// TestAddrCopiesNoKey: who asks for a service's address leaves no copy of its secret key behind.
func TestAddrCopiesNoKey(t *testing.T) {
	key, err := NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	cost := func(secret OnionKey) float64 { // nothing else runs, which would allocate, too
		l := &OnionListener{key: key.k, given: OnionConfig{Key: secret, Ports: []int{80}}}
		return testing.AllocsPerRun(100, func() { l.Addr() })
	}
	if without, with := cost(OnionKey{}), cost(key); with != without {
		t.Errorf("%v allocations, and with a key %v", without, with)
	}
}
