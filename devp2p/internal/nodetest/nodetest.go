// Package nodetest makes keys and signed records of nodes for tests.
package nodetest

import (
	"crypto/ecdsa"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
)

// Key returns a new key of a node.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Node returns the first record of a new node.
func Node(t testing.TB, entries ...enr.Entry) *enode.Node {
	t.Helper()
	return Signed(t, Key(t), 1, entries...)
}

// Signed returns the record of a key with a sequence number.
func Signed(t testing.TB, key *ecdsa.PrivateKey, seq uint64, entries ...enr.Entry) *enode.Node {
	t.Helper()
	var r enr.Record
	r.SetSeq(seq)
	for _, e := range entries {
		r.Set(e)
	}
	if err := enode.SignV4(&r, key); err != nil {
		t.Fatal(err)
	}
	n, err := enode.New(enode.ValidSchemes, &r)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Peer returns the first record of a new node whose TCP port is 30303, if entries name no
// other.
func Peer(t testing.TB, entries ...enr.Entry) *enode.Node {
	t.Helper()
	return Node(t, append([]enr.Entry{enr.TCP(30303)}, entries...)...)
}
