package flood

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/lab"
)

// patience bounds what a loaded machine takes its time for.
const patience = 5 * time.Minute

// trips are an honest client's round trips during each flood.
const trips = 20

// TestFloods has every flood go, with a small part of its budget, against relays
// and an authority of Chive's in this process, in short mode two of them: an
// honest client gets through, beside it and after it.
func TestFloods(t *testing.T) {
	labtest.NoLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute, Authorities: 1, Relays: 1, Exits: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := nw.Close(); err != nil {
			t.Error(err) // a relay that ended by itself, too
		}
	}()
	aim, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer aim.Close()
	s := &site{target: aim}
	dir := authorityOf(t, nw)
	peer := func(name string) Peer {
		t.Helper()
		id, err := ident.ParseRSAID(nw.Node(name).Fingerprint)
		if err != nil {
			t.Fatal(err)
		}
		p, err := learn(ctx, dir.Dir, id)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s.entry, s.exit = peer("chiverelay0"), peer("chiveexit1")
	victims := map[role]*victim{
		relay:     {name: "Chive", role: relay, Peer: peer("chiveexit0")},
		authority: {name: "Chive", role: authority, Peer: dir},
	}
	for i := range floods {
		f := &floods[i]
		if testing.Short() && f.name != "create-fast" && f.name != "key-update" {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			v := victims[f.on]
			u := s.user(v)
			defer u.close()
			use(ctx, t, u)
			type result struct {
				Counts
				err error
			}
			a, err := newAttack(s.order(f, v, i, 20, patience))
			if err != nil {
				t.Fatal(err)
			}
			small := *f
			small.conns = min(f.conns, 4)
			a.flood, a.rate.per = &small, max(a.rate.per, time.Second/500)
			running, stop := context.WithCancel(ctx)
			done := make(chan result, 1)
			go func() {
				c, err := a.carryOut(running)
				done <- result{c, err}
			}()
			// The flood goes on until it has done something, and the client has
			// got through beside it.
			for n := 0; (n < trips || a.sent.Load() == 0) && ctx.Err() == nil; n++ {
				if err := u.ping(ctx); err != nil {
					t.Errorf("in the flood: %v", err)
					break
				}
				pause(ctx, pingEvery)
			}
			stop()
			r := <-done
			if r.err != nil || r.Opened == 0 || r.Sent == 0 {
				t.Errorf("%+v, %v", r.Counts, r.err)
			}
			use(ctx, t, u)
		})
	}
}

// use has an honest client do everything. What a flood cut is made anew.
func use(ctx context.Context, t *testing.T, u user) {
	t.Helper()
	for what, do := range map[string]func(context.Context) error{
		"round trip": u.ping, "new circuit": u.connect,
		"download": func(ctx context.Context) error { return u.fetch(ctx, new(meter)) },
	} {
		ctx, cancel := context.WithTimeout(ctx, patience/5)
		err := do(ctx)
		for err != nil && ctx.Err() == nil {
			pause(ctx, retry)
			err = do(ctx)
		}
		cancel()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// authorityOf is the network's authority.
func authorityOf(t *testing.T, nw *lab.Network) Peer {
	t.Helper()
	text, err := os.ReadFile(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	d, err := netfile.Parse(nw.NetworkFile, text)
	if err != nil {
		t.Fatal(err)
	}
	a := d.Authorities[0]
	return Peer{RSA: a.RSA, Ed: a.Ed, OR: a.ORPorts[0], Dir: a.DirPort}
}

func TestOrderStaysOnLoopback(t *testing.T) {
	local := netip.MustParseAddrPort("127.0.0.1:1")
	good := Order{Flood: "churn", Victim: Peer{OR: local}, Source: local, Sources: addresses(3, 2), Time: time.Second}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	away := netip.MustParseAddrPort("192.0.2.1:1")
	for i, change := range []func(*Order){
		func(o *Order) { o.Victim.OR = away },
		func(o *Order) { o.Victim.Dir = away },
		func(o *Order) { o.Entry.OR = away },
		func(o *Order) { o.Exit.OR = away },
		func(o *Order) { o.Source = away },
		func(o *Order) { o.Sources = append(o.Sources, away.Addr()) },
		func(o *Order) { o.Sources = nil },
		func(o *Order) { o.Time = maxTime + 1 },
	} {
		bad := good
		change(&bad)
		if _, err := Attack(t.Context(), bad); err == nil {
			t.Errorf("order %d is carried out", i)
		}
	}
}

func TestAddressesAreNew(t *testing.T) {
	seen := map[netip.Addr]bool{honestAddr: true, connectAddr: true}
	for number := range 500 {
		for _, a := range addresses(number, 3) {
			if seen[a] || !a.IsLoopback() {
				t.Fatalf("%v of %d", a, number)
			}
			seen[a] = true
		}
	}
}
