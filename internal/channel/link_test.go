package channel

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
)

// made is one relay's keys, made once: RSA keys take their time.
var made = sync.OnceValues(func() (*RelayKeys, error) {
	r, err := newTestIdentity()
	if err != nil {
		return nil, err
	}
	return r.NewRelayKeys(rand.Reader, time.Now())
})

func newTestIdentity() (*RelayIdentity, error) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, cert.RSAIdentityBits)
	if err != nil {
		return nil, err
	}
	_, identity, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return NewRelayIdentity(rsaKey, identity, signing, time.Now().Add(30*24*time.Hour)), nil
}

func keys(t testing.TB) *RelayKeys {
	t.Helper()
	k, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var madeOther = sync.OnceValues(func() (*RelayKeys, error) {
	r, err := newTestIdentity()
	if err != nil {
		return nil, err
	}
	return r.NewRelayKeys(rand.Reader, time.Now())
})

// otherKeys are another relay's.
func otherKeys(t testing.TB) *RelayKeys {
	t.Helper()
	k, err := madeOther()
	if err != nil {
		t.Fatal(err)
	}
	return k
}
