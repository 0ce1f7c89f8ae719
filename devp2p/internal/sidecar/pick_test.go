package sidecar

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p"
)

// nodeAt makes a node of a number at an onion of a number.
func nodeAt(t *testing.T, id, onion int) *enode.Node {
	t.Helper()
	seed := sha256.Sum256(fmt.Append(nil, "node", id))
	key, err := crypto.ToECDSA(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	seed = sha256.Sum256(fmt.Append(nil, "onion", onion))
	pub := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	address, err := chive.OnionAddress(pub)
	if err != nil {
		t.Fatal(err)
	}
	var r enr.Record
	r.Set(devp2p.Onion3(address))
	r.Set(enr.TCP(30303))
	r.Set(enode.Secp256k1(key.PublicKey))
	return enode.SignNull(&r, enode.PubkeyToIDV4(&key.PublicKey))
}

// TestCandidates follows claims: false ones take no place from the true one.
func TestCandidates(t *testing.T) {
	var cs candidates
	now := time.Now()
	for onion := range maxPerClaim + 1 {
		err := cs.add(nodeAt(t, 1, onion), "a", false)
		if (err == nil) != (onion < maxPerClaim) {
			t.Errorf("claim %d: %v", onion, err)
		}
	}
	if err := cs.add(nodeAt(t, 1, 100), "", true); err != nil {
		t.Errorf("a static node: %v", err)
	}
	first := cs.take(10, nil, now)
	if len(first) != 1 || !first[0].static {
		t.Fatalf("took %d at the same time, want the static one", len(first))
	}
	if got := cs.take(10, nil, now); len(got) != 0 {
		t.Errorf("took another onion of a node that is in use")
	}
	cs.done(first[0], false, now)
	seen := map[claim]bool{first[0].claim: true}
	for range maxPerClaim {
		got := cs.take(10, nil, now)
		if len(got) != 1 || seen[got[0].claim] {
			t.Fatalf("after a failure took %d", len(got))
		}
		seen[got[0].claim] = true
		cs.done(got[0], false, now)
	}
	if got := cs.take(10, nil, now); len(got) != 0 {
		t.Error("took one that failed, at once")
	}
	if got := cs.take(10, nil, now.Add(retryMin)); len(got) != 1 {
		t.Error("none is tried again")
	}
	skip := map[enode.ID]bool{nodeAt(t, 1, 0).ID(): true}
	if got := cs.take(10, skip, now.Add(time.Hour)); len(got) != 0 {
		t.Error("took a node that is connected")
	}
}

// TestFalseClaims: a claim with another port does not change the true one, and false claims
// that failed make room for it.
func TestFalseClaims(t *testing.T) {
	var cs candidates
	truth := nodeAt(t, 1, 100)
	if err := cs.add(truth, "static", true); err != nil {
		t.Fatal(err)
	}
	r := truth.Record()
	r.Set(enr.TCP(9))
	if err := cs.add(enode.SignNull(r, truth.ID()), "liar", false); err != nil {
		t.Fatal(err)
	}
	if got := cs.take(1, nil, time.Now()); len(got) != 1 || got[0].node.TCP() != truth.TCP() {
		t.Errorf("a claim with another port took the place of a static node")
	}
	for onion := range maxPerClaim {
		if err := cs.add(nodeAt(t, 2, onion), "liar", false); err != nil {
			t.Fatal(err)
		}
	}
	cs.done(cs.take(1, nil, time.Now())[0], false, time.Now())
	if err := cs.add(nodeAt(t, 2, 100), "honest", false); err != nil {
		t.Errorf("the true claim after a false one failed: %v", err)
	}
}

// TestCandidatesFull fills the list: one source cannot, and failures make room.
func TestCandidatesFull(t *testing.T) {
	var cs candidates
	added := 0
	for i := range maxPerSource + 1 {
		if cs.add(nodeAt(t, i, i), "a", false) == nil {
			added++
		}
	}
	if added != maxPerSource {
		t.Errorf("one source added %d", added)
	}
	for i := maxPerSource; i < maxCandidates; i++ {
		if err := cs.add(nodeAt(t, i, i), fmt.Sprint("b", i), false); err != nil {
			t.Fatal(err)
		}
	}
	next := nodeAt(t, maxCandidates, 0)
	if cs.add(next, "c", false) == nil {
		t.Error("a full list took one more")
	}
	cs.done(cs.take(1, nil, time.Now())[0], false, time.Now())
	if err := cs.add(next, "c", false); err != nil || cs.len() != maxCandidates {
		t.Errorf("after a failure: %v, %d", err, cs.len())
	}
}
