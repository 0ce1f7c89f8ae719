package handshake

import (
	"io"
	"sync"
)

// KeyAhead has an X25519 key pair for the next handshake: to make one takes longer than the
// rest of an onionskin. Each pair serves one handshake. The zero value has none; the methods
// may be called from many goroutines.
type KeyAhead struct {
	mu    sync.Mutex // guards what follows
	pair  NtorKeyPair
	ready bool
}

// Make makes a key pair from 32 bytes of rand, unless there is one.
func (a *KeyAhead) Make(rand io.Reader) error {
	if a.has() {
		return nil
	}
	var k NtorKeyPair
	defer k.wipe()
	if err := k.generate(rand); err != nil {
		return err
	}
	a.put(&k)
	return nil
}

// Before returns rand for one handshake that is to be started: this takes the key pair, if
// there is one, and else makes its own from rand.
func (a *KeyAhead) Before(rand io.Reader) io.Reader { return withKey{rand, a} }

// withKey is what Before returns.
type withKey struct {
	io.Reader
	ahead *KeyAhead
}

func (a *KeyAhead) has() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready
}

func (a *KeyAhead) put(k *NtorKeyPair) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pair, a.ready = *k, true
}

// take moves the key pair to k, and reports whether there was one.
func (a *KeyAhead) take(k *NtorKeyPair) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ready {
		return false
	}
	*k = a.pair
	a.pair.wipe()
	a.ready = false
	return true
}
