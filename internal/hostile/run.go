package hostile

import (
	"crypto/rand"
	"fmt"
	"hash/crc32"
	rand2 "math/rand/v2"
	"net/netip"
	"runtime/debug"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/simnet"
)

// world is one run: the attacked nodes, the attackers, and honest nodes.
type world interface {
	// settle sends joined cells, if the next operation is not joined.
	settle()
	// finish ends the attack and checks that it has left nothing behind.
	finish()
}

// stuckAfter is how long a run may take in real time. Virtual time stands still
// while a goroutine computes, or waits for a mutex without end.
const stuckAfter = 60 * time.Second

// fuzz makes a fuzz target run programs against new worlds. needs are called before.
func fuzz[W world](f *testing.F, ops table[W], newWorld func(t *testing.T) W, needs ...func() error) {
	prepare(f, needs...)
	f.Fuzz(func(t *testing.T, input []byte, edits uint32) { run(t, input, edits, ops, newWorld) })
}

// run runs a fuzz input against a new world.
func run[W world](t *testing.T, input []byte, edits uint32, ops table[W], newWorld func(t *testing.T) W) {
	p := Parse(input)
	if edits != 0 {
		p = p.edited(rand2.New(rand2.NewPCG(uint64(edits), uint64(crc32.ChecksumIEEE(input)))), len(ops))
	}
	if testing.Verbose() {
		t.Log(ops.describe(p))
	}
	// Randomness is the same for every run, except for the keys, which belong to the
	// process, and for numbers from math/rand: padding within cells, identifiers of
	// streams.
	cryptotest.SetGlobalRandom(t, 1)
	stuck := time.AfterFunc(stuckAfter, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("hostile: a run has not ended after %v:%s", stuckAfter, ops.describe(p)))
	})
	defer stuck.Stop()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, i := range p {
			ops.of(i).do(w, i)
			if i.Op&Joined == 0 {
				w.settle()
				synctest.Wait()
			}
		}
		w.settle()
		w.finish()
	})
	if t.Failed() {
		t.Log(ops.describe(p))
	}
}

// The nodes of all worlds. The keys of each are made once.
const (
	nodeVictim   = iota // the attacked relay
	nodeGood            // an honest one
	nodeHostile         // a node of the attacker that listens
	nodeHostile2        // and another
	nodeCaller          // a node of the attacker that dials
	nodeCount
)

// epoch is the start of time in every bubble.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

var nodeKeys [nodeCount]*simnet.Keys

var makeKeys = sync.OnceValue(func() error {
	for i := range nodeKeys {
		k, err := simnet.NewKeys(rand.Reader, epoch)
		if err != nil {
			return err
		}
		nodeKeys[i] = k
	}
	return nil
})

// prepare makes what all worlds share and calls needs. This must not happen within
// a run, which the fuzzing engine limits to ten seconds.
func prepare(f *testing.F, needs ...func() error) {
	for _, make := range append(needs, makeKeys, makeCompressors) {
		if err := make(); err != nil {
			f.Fatal(err)
		}
	}
}

// address returns the address of a node.
func address(node int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(node + 1)}), 9001)
}

// honestAddress is the address of honest clients.
var honestAddress = netip.AddrFrom4([4]byte{10, 0, 1, 1})

// targetOf returns the target for extends to a node.
func targetOf(node int) linkspec.Target {
	proto, err := protover.Parse(simnet.Protocols)
	if err != nil {
		panic(err) // a constant
	}
	k := nodeKeys[node]
	return linkspec.Target{RelayID: k.Link.ID, Addrs: []netip.AddrPort{address(node)}, Ntor: k.Onion.Public(), Proto: proto}
}

func addrsOf(t linkspec.Target) (out []netip.Addr) {
	for _, a := range t.Addrs {
		out = append(out, a.Addr())
	}
	return out
}

// later lets virtual time pass.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
