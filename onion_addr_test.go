package chive

import "testing"

// TestAddrCopiesNoKey: who asks for a service's address leaves no copy of its secret key behind.
func TestAddrCopiesNoKey(t *testing.T) {
	key, err := new(OnionConfig).key()
	if err != nil {
		t.Fatal(err)
	}
	cost := func(secret []byte) float64 { // nothing else runs, which would allocate, too
		l := &OnionListener{key: key, given: OnionConfig{Key: secret, Ports: []int{80}}}
		return testing.AllocsPerRun(100, func() { l.Addr() })
	}
	if without, with := cost(nil), cost(key.Bytes()); with != without {
		t.Errorf("%v allocations, and with a key %v", without, with)
	}
}
