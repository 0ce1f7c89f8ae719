package handshake

import (
	"crypto/rand"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

func makeAhead(t *testing.T, a *KeyAhead) {
	if err := a.Make(rand.Reader); err != nil {
		t.Error(err)
	}
}

// TestAhead: a key pair that was made ahead serves one handshake, and then it is nowhere
// else.
func TestAhead(t *testing.T) {
	var a KeyAhead
	onion := pair(t).Public()
	start := func() *ntorState {
		s, _, err := ntorClient(a.Before(rand.Reader), ident.RSAID{1}, onion)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if first, second := start(), start(); first.x.pub == second.x.pub {
		t.Fatal("two handshakes without a key pair made ahead have the same")
	}
	makeAhead(t, &a)
	ahead := a.pair
	makeAhead(t, &a)
	if first := start(); first.x != ahead {
		t.Fatal("the key pair was not used, or was replaced")
	}
	if a.ready || a.pair.sec != [32]byte{} {
		t.Fatal("the secret is still there")
	}
	if second := start(); second.x.pub == ahead.pub || second.x.sec == ahead.sec {
		t.Fatal("the key pair was used twice")
	}
	if k, err := NtorKeyPairFromSecret(ahead.sec[:]); err != nil || k.pub != ahead.pub {
		t.Fatal("not a key pair", err)
	}
}

// TestAheadFromMany: handshakes that start at the same time never share a key pair.
func TestAheadFromMany(t *testing.T) {
	var a KeyAhead
	var mu sync.Mutex
	seen := map[ident.X25519Key]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				makeAhead(t, &a)
				var k NtorKeyPair
				if err := k.generate(a.Before(rand.Reader)); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[k.pub] {
					t.Error("a key pair was used twice")
				}
				seen[k.pub] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
