package fte

import (
	"bytes"
	"crypto/rand"
	"testing"
	"time"
)

// exchanged runs an exchange of keys up to the server's answer; ok: the server took the hello.
func exchanged(t *testing.T, key *ServerKey, cert *Cert, client, server []byte, flags byte) (c *clientKex, answer []byte, s secrets, ok bool) {
	t.Helper()
	c, hello, err := newClientKex(rand.Reader, cert, client, flags, 0, time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	k, n, err := newServerKex([]*ServerKey{key}, server, hello[:clientHelloHead])
	if err != nil {
		return nil, nil, secrets{}, false
	}
	if err := k.read(hello[clientHelloHead : clientHelloHead+n]); err != nil {
		t.Fatal(err)
	}
	if answer, s, err = k.answer(rand.Reader, 0); err != nil {
		t.Fatal(err)
	}
	return c, answer, s, true
}

// TestKexBinds: a hello counts only with the certificate's secret and the same prologue, and
// ML-KEM's secret is in the keys. Each side alone would not notice if both left one out.
func TestKexBinds(t *testing.T) {
	key, err := NewServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := key.Cert()
	if _, _, _, ok := exchanged(t, key, cert, []byte("a"), []byte("a"), 0); !ok {
		t.Error("a good hello is refused")
	}
	if _, _, _, ok := exchanged(t, key, cert, []byte("a"), []byte("b"), 0); ok {
		t.Error("another prologue")
	}
	other := *cert
	other.secret[0] ^= 1
	if _, _, _, ok := exchanged(t, key, &other, []byte("a"), []byte("a"), 0); ok {
		t.Error("the right key, with a wrong secret")
	}
	c, answer, server, ok := exchanged(t, key, cert, []byte("a"), []byte("a"), flagHybrid)
	if !ok {
		t.Fatal("a hybrid hello is refused")
	}
	if _, err := c.head(answer[:serverHelloHead]); err != nil {
		t.Fatal(err)
	}
	classical, tr, b := *c, *c.t, *c.b
	classical.t, classical.b, classical.dk = &tr, &b, nil
	without, err := classical.finish(answer[serverHelloHead:])
	if err != nil {
		t.Fatal(err)
	}
	with, err := c.finish(answer[serverHelloHead:])
	if err != nil || with != server {
		t.Errorf("the sides have other keys: %v", err)
	}
	if with.toServer == without.toServer || with.toClient == without.toClient {
		t.Error("ML-KEM's secret is not in the keys")
	}
}

// TestBoxNonces: no two messages of a key have one nonce.
func TestBoxNonces(t *testing.T) {
	b := newBox([32]byte{1})
	if bytes.Equal(b.nonce(), b.nonce()) {
		t.Error("a nonce is used again")
	}
}
