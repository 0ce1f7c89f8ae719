package client

import (
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// overRelays makes a client that has a directory, and a circuit over three relays that the
// directory does not list.
func overRelays(t *testing.T, cfg Config, opt dirgen.Options) (*Client, *OpenCircuit) {
	t.Helper()
	opt.Relays, opt.ValidAfter = 60, time.Now().Add(-time.Minute)
	made, err := dirgen.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	network := *netdir.Public()
	network.Testing.AllowPrivateAddresses = true
	cfg.Network, cfg.Dial = &network, simnet.Dial
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c.newDirectory(d)
	p := new(path.Path)
	for range path.DefaultHops {
		p.Hops = append(p.Hops, path.Hop{Target: simnet.New(t, simnet.Options{}).Target})
	}
	circ, err := (&building{Client: c, path: p, life: lifeOf(c, p), start: time.Now()}).run(withTimeout(t))
	if err != nil {
		t.Fatal(err)
	}
	return c, circ
}

func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestEveryHop: each hop of a circuit has CGO and congestion control, not only the last one,
// and whatever the consensus says about the algorithm.
func TestEveryHop(t *testing.T) {
	for name, x := range map[string]struct {
		cfg  Config
		opt  dirgen.Options
		want bool
	}{
		"as usual":                   {Config{}, dirgen.Options{}, true},
		"a consensus that lowers it": {Config{}, dirgen.Options{Params: netdoc.Params{{Name: "cc_alg", Value: 0}}}, true},
		"a user who turned it off":   {Config{Congestion: Off}, dirgen.Options{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, circ := overRelays(t, x.cfg, x.opt)
			hops := circ.Hops()
			if len(hops) != path.DefaultHops {
				t.Fatal(len(hops))
			}
			for i, h := range hops {
				if info := h.Info(); info.Congestion != x.want || (info.Layer == "cgo") != x.want || info.Handshake != "ntor-v3" {
					t.Errorf("hop %d: %s, %s, congestion control: %v", i, info.Handshake, info.Layer, info.Congestion)
				}
			}
		})
	}
}

// TestStrangersRelay: of a relay that is known by its link specifiers only, a client assumes
// what the consensus requires of every relay, and no more.
func TestStrangersRelay(t *testing.T) {
	for name, x := range map[string]struct {
		required, handshake, layer string
		congestion                 bool
	}{
		"the consensus requires CGO":     {"FlowCtrl=1-2 Link=4-5 Relay=2-6", "ntor-v3", "cgo", true},
		"it requires ntor-v3":            {"FlowCtrl=1-2 Link=4-5 Relay=2-4", "ntor-v3", "tor1", true},
		"CGO without congestion control": {"FlowCtrl=1 Link=4-5 Relay=2-6", "ntor-v3", "tor1", false},
		"it requires ntor":               {"FlowCtrl=1 Link=4 Relay=2", "ntor", "tor1", false},
	} {
		t.Run(name, func(t *testing.T) {
			c, circ := overRelays(t, Config{}, dirgen.Options{OfRelays: x.required})
			there := simnet.New(t, simnet.Options{}).Target
			named := linkspec.Target{RelayID: there.RelayID, Addrs: there.Addrs, Ntor: there.Ntor}
			n := clientNetwork{c}
			if err := n.extendOnion(withTimeout(t), circ, circ.path.Exit().Target, named, named.Specs()); err != nil {
				t.Fatal(err)
			}
			if info := circ.Last().Info(); len(circ.Hops()) != 4 || info.Handshake != x.handshake || info.Layer != x.layer || info.Congestion != x.congestion {
				t.Errorf("%d hops, the last with %s and %s, congestion control: %v", len(circ.Hops()), info.Handshake, info.Layer, info.Congestion)
			}
			// What is known of a relay is not replaced.
			known := linkspec.Target{Proto: there.Proto}
			if c.assume(&known); known.Proto.String() != there.Proto.String() {
				t.Errorf("%v became %v", there.Proto, known.Proto)
			}
		})
	}
	if c := isolated(t, netdir.Public(), refuse); c.ofRelays.Load() != nil {
		t.Error("something is assumed without a consensus")
	}
}
