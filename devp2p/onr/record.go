package onr

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/chivenet/chive/devp2p"
)

// Check verifies a record that a peer sent, and returns its node. It refuses a record
// that its node did not sign, and one without an onion.
func Check(r *enr.Record) (*enode.Node, error) {
	if s := r.IdentityScheme(); s != "v4" {
		return nil, fmt.Errorf("onr: a record with identity scheme %q: want v4", s)
	}
	n, err := enode.New(enode.ValidSchemes, r)
	if err != nil {
		return nil, fmt.Errorf("onr: record: %w", err)
	}
	if _, _, err := devp2p.OnionOf(n); err != nil {
		return nil, fmt.Errorf("onr: record: %w", err)
	}
	if _, _, err := Behind(n); err != nil {
		return nil, err
	}
	return n, nil
}

// Fronts is an entry of a sidecar's record, with the key "fronts": the identity of another
// node, which answers at the same onion and port. It is a public key of secp256k1, and
// stands in a record as 33 bytes, compressed.
type Fronts ecdsa.PublicKey

// ENRKey implements enr.Entry.
func (Fronts) ENRKey() string { return "fronts" }

// EncodeRLP implements rlp.Encoder.
func (f Fronts) EncodeRLP(w io.Writer) error {
	return rlp.Encode(w, crypto.CompressPubkey((*ecdsa.PublicKey)(&f)))
}

// DecodeRLP implements rlp.Decoder.
func (f *Fronts) DecodeRLP(s *rlp.Stream) error {
	raw, err := s.Bytes()
	if err != nil {
		return fmt.Errorf("onr: fronts: %w", err)
	}
	key, err := crypto.DecompressPubkey(raw)
	if err != nil {
		return fmt.Errorf("onr: fronts: %w", err)
	}
	*f = Fronts(*key)
	return nil
}

// Behind returns the node that a sidecar's onion leads to, for the transport to dial: its
// identity, the sidecar's onion and port, and the entry "eth" of the sidecar's record, if
// that has one. The result's record is not signed, so no peer may be told it. ok is false,
// without an error, if n's record has no entry "fronts".
//
// A sidecar can name any node. Dialling it shows by the RLPx handshake whether that
// node is there.
func Behind(n *enode.Node) (behind *enode.Node, ok bool, err error) {
	var f Fronts
	if err := n.Load(&f); enr.IsNotFound(err) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	key := ecdsa.PublicKey(f)
	id := enode.PubkeyToIDV4(&key)
	if id == n.ID() {
		return nil, false, errors.New("onr: fronts: the node itself")
	}
	host, port, err := devp2p.OnionOf(n)
	if err != nil {
		return nil, false, fmt.Errorf("onr: fronts: %w", err)
	}
	var r enr.Record
	r.Set(devp2p.Onion3(host))
	r.Set(enr.TCP(port))
	r.Set(enode.Secp256k1(key))
	var eth rlp.RawValue
	if err := n.Load(enr.WithEntry("eth", &eth)); err == nil {
		r.Set(enr.WithEntry("eth", eth))
	}
	return enode.SignNull(&r, id), true, nil
}

// tellable reports whether a peer may be told a node's record. It leaves the signature to
// the book, which has records only from Check and from this node.
func tellable(n *enode.Node) bool {
	if n == nil || n.Record().IdentityScheme() != "v4" || len(n.Record().Signature()) != 64 {
		return false
	}
	_, _, err := devp2p.OnionOf(n)
	return err == nil
}
