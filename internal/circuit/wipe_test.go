package circuit

import (
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// TestWipe: a handshake that was given up cannot be finished any more, whatever
// its kind.
func TestWipe(t *testing.T) {
	env := &Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}
	proto, err := protover.Parse("Relay=2-6 FlowCtrl=1-2 ChivePQ=1-3,8")
	if err != nil {
		t.Fatal(err)
	}
	key, err := handshake.GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	target := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}, Ed: ident.Ed25519ID{2}}, Ntor: key.Public(), Proto: proto}
	relay := &handshake.Relay{ID: target.RelayID, Onion: []*handshake.NtorKeyPair{key}, PQ: []string{"1-3,8"}}
	nothing := func([]byte) ([]byte, error) { return []byte{0}, nil }
	for _, k := range handshake.Kinds {
		name := k.Name
		for i := range 4 {
			wiped, prepared := i&1 != 0, i&2 != 0
			hs, err := startHandshake(env, target, HopOptions{Handshake: k})
			if err != nil {
				t.Fatal(name, err)
			}
			reply, _, err := k.Serve(rand.Reader, relay, hs.onionskin, nothing)
			if err != nil {
				t.Fatal(name, err)
			}
			if prepared {
				hs.prepare(env)
			}
			if wiped {
				hs.wipe()
			}
			_, err = hs.finish(newCircuit(env, nil), reply)
			if wiped != fault.Is(err, fault.Local) || !wiped && err != nil {
				t.Errorf("%s, wiped %v, prepared %v: %v", name, wiped, prepared, err)
			}
		}
	}
}
