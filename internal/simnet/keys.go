package simnet

import (
	"crypto/rand"
	"crypto/rsa"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/handshake"
)

// Keys are a relay's keys. Making them takes some 100 ms.
type Keys struct {
	Link  *channel.RelayKeys
	Onion *handshake.NtorKeyPair
}

// NewKeys makes keys that are good from now on, for a day at least.
func NewKeys(random io.Reader, now time.Time) (*Keys, error) {
	rsaKey, err := rsa.GenerateKey(random, 1024)
	if err != nil {
		return nil, err
	}
	idKey, err := cert.GenerateExpanded(random)
	if err != nil {
		return nil, err
	}
	signing, err := cert.GenerateExpanded(random)
	if err != nil {
		return nil, err
	}
	k := new(Keys)
	if k.Link, err = channel.NewRelayIdentity(rsaKey, idKey, signing, now.Add(30*24*time.Hour)).NewRelayKeys(random, now); err != nil {
		return nil, err
	}
	k.Onion, err = handshake.GenerateNtorKeyPair(random)
	return k, err
}

// spare holds the keys of relays that have stopped, for later relays of the
// same test binary.
var spare struct {
	mu   sync.Mutex // guards what follows
	keys []spareKeys
}

type spareKeys struct {
	*Keys
	made time.Time
}

// spareFor is how long after they were made keys may serve a new relay. A bubble
// of virtual time begins long before that, and needs keys of its own time.
const spareFor = time.Hour

// borrowKeys returns keys that no other relay has until the test has ended.
func borrowKeys(t testing.TB) *Keys {
	t.Helper()
	now := time.Now()
	spare.mu.Lock()
	i := slices.IndexFunc(spare.keys, func(k spareKeys) bool {
		age := now.Sub(k.made)
		return age >= 0 && age < spareFor
	})
	var k spareKeys
	if i >= 0 {
		k = spare.keys[i]
		spare.keys = slices.Delete(spare.keys, i, i+1)
	}
	spare.mu.Unlock()
	if k.Keys == nil {
		made, err := NewKeys(rand.Reader, now)
		check(t, err)
		k = spareKeys{made, now}
	}
	t.Cleanup(func() { // after Stop, which is registered later
		spare.mu.Lock()
		defer spare.mu.Unlock()
		spare.keys = append(spare.keys, k)
	})
	return k.Keys
}
