package peers

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/program/programtest"

	"github.com/chivenet/chive/devp2p"
)

// TestOverOnions connects two nodes by real onions in a network of relays.
func TestOverOnions(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no network of relays")
	}
	programtest.NoLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute, Authorities: 1, Relays: 6, Exits: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	}()
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	other, err := chive.New(chive.Config{Network: network, DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	a := run(t, devp2p.Embedded(nw.Client), Config{Dir: t.TempDir()})
	defer a.stop()
	self := selfWithOnion(t, ctx, a)
	if self.IPAddr() != (netip.Addr{}) || self.Load(new(enr.UDP)) == nil {
		t.Errorf("the record has an address: %v", self.IPAddr())
	}
	b := run(t, devp2p.Embedded(other), Config{})
	defer b.stop()
	began := time.Now()
	if err := b.Add(self, "test"); err != nil {
		t.Fatal(err)
	}
	a.talk.wait(t, ctx, 1)
	b.talk.wait(t, ctx, 1)
	t.Logf("connected in %v", time.Since(began))
	for _, s := range b.Status() {
		t.Logf("%s: onion %v, %s; setup %v, round trip %v", s.State, s.Onion, s.Why, s.Onions.Setup, s.Onions.RTT)
		if s.State != Connected || !s.Onion || s.Why == "" || s.Onions.RTT == 0 {
			t.Errorf("%+v", s)
		}
	}
	if s := a.Status(); len(s) != 1 || !s[0].Inbound || !s[0].Onion {
		t.Errorf("%+v", s)
	}

	// A private connection is another node's, for the peer.
	p := newTalk()
	pctx, pcancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.Dial(pctx, self, p.protocol()) }()
	p.wait(t, ctx, 1)
	a.talk.wait(t, ctx, 2)
	pcancel()
	if err := <-ended; err == nil {
		t.Error("a private connection that was cancelled has no error")
	}
}
