package client

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// chooser is a client that only chooses paths; its state is in dir.
func chooser(t *testing.T, dir string, mode guard.VanguardMode, d *netdir.Directory) *Client {
	t.Helper()
	c := &Client{cfg: Config{Dir: dir, Vanguards: mode}}
	c.live.Store(&Live{})
	var err error
	if c.guards, err = newGuards(&c.cfg); err != nil {
		t.Fatal(err)
	}
	if c.vanguards, err = guard.NewVanguards(mode, c.cfg.store("vanguards.json"), nil, d.ValidAfter()); err != nil {
		t.Fatal(err)
	}
	c.guards.Update(guard.FromNetdir(d), d.ValidAfter())
	return c
}

// stop saves what a client saves.
func (c *Client) stop(t *testing.T) {
	t.Helper()
	if err := c.guards.Save(); err != nil {
		t.Fatal(err)
	}
	if err := c.vanguards.Save(); err != nil {
		t.Fatal(err)
	}
}

// purpose is what a circuit of an onion service, or of its client, is for.
type purpose struct {
	name       string
	stub       stub
	whole      bool // the circuit is built as a whole, and is not a stub
	target     bool // a relay follows that is not this client's choice
	lite, full int  // the length
}

// purposes are those of vanguards-spec.
var purposes = []purpose{
	{name: "client's rendezvous", stub: stubFar, lite: 3, full: 4},
	{name: "client's directory or introduction", stub: stubFar, target: true, lite: 4, full: 5},
	{name: "service's directory or known introduction", stub: stubNear, target: true, lite: 4, full: 4},
	{name: "service's new introduction", whole: true, lite: 4, full: 4},
	{name: "service's rendezvous", stub: stubFar, target: true, lite: 4, full: 5},
}

// circuitFor returns the relays of a circuit; target is the one that follows.
func (c *Client) circuitFor(t *testing.T, p purpose, d *netdir.Directory, target netdir.Relay, now time.Time) *path.Path {
	t.Helper()
	spec := path.Spec{Hops: clientNetwork{c}.hops(p.stub)}
	switch {
	case p.whole:
		spec = path.Spec{Hops: 4, Stable: true, NeedExit: []path.Capability{path.Introduction}}
	case p.target:
		spec.Next = target.RSA()
	}
	out, err := c.choosePath(d, &spec, now)
	if err != nil {
		t.Fatal(p.name, err)
	}
	out.Guard.Cancelled(now)
	if p.target {
		out.Hops = append(out.Hops, path.Hop{Target: target.Target(), Relay: target})
	}
	return out
}

// TestVanguardPaths checks a thousand paths for each purpose, with lite and with full
// vanguards, while relays leave the network and the client starts again and again.
func TestVanguardPaths(t *testing.T) {
	const (
		turns = 20
		each  = 50
	)
	begin := time.Now().Truncate(time.Hour).UTC()
	made, err := dirgen.New(dirgen.Options{Relays: 150, ValidAfter: begin})
	if err != nil {
		t.Fatal(err)
	}
	var dirs []*netdir.Directory
	for i := range turns {
		if err := made.Publish(begin.Add(time.Duration(i) * time.Hour)); err != nil {
			t.Fatal(err)
		}
		d, err := made.Directory()
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, d)
		made.Churn(0.06)
	}
	for mode, name := range map[guard.VanguardMode]string{guard.VanguardsLite: "lite", guard.VanguardsFull: "full"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rng := rand.New(rand.NewPCG(5, uint64(mode)))
			var before [][]ident.RSAID
			count := map[string]int{}
			stays, left := 0, 0
			seen := make([]map[ident.RSAID]bool, 2)
			for i := range seen {
				seen[i] = map[ident.RSAID]bool{}
			}
			guards := map[ident.RSAID]bool{}
			families, again := 0, 0
			for _, d := range dirs {
				c := chooser(t, dir, mode, d)
				now := d.ValidAfter()
				layers := c.vanguards.Layers(d, func(netdir.Relay) bool { return true }, newRand(), now)
				if mode == guard.VanguardsFull && before != nil {
					for i, layer := range before {
						for _, id := range layer {
							r, listed := d.Lookup(id)
							good := listed && r.Has(netdir.FlagFast|netdir.FlagStable)
							switch has := slices.Contains(layers[i], id); {
							case has && !good:
								t.Error("a vanguard that left the network is used")
							case has:
								stays++
							case good && i == 0:
								t.Error("a second hop did not survive a restart") // their lives are longer than the test
							case !good:
								left++
							}
						}
					}
				}
				before = layers
				all := slices.Collect(d.All())
				for range each {
					target := all[rng.IntN(len(all))]
					for _, p := range purposes {
						got := c.circuitFor(t, p, d, target, now)
						count[p.name]++
						ids := got.IDs()
						want := p.lite
						if mode == guard.VanguardsFull {
							want = p.full
						}
						if len(ids) != want {
							t.Fatalf("%s: %d hops, not %d", p.name, len(ids), want)
						}
						for i, layer := range layers {
							if !slices.Contains(layer, ids[i+1]) {
								t.Fatalf("%s: hop %d is no vanguard", p.name, i+2)
							}
							seen[i][ids[i+1]] = true
						}
						for i := range ids {
							if i >= 1 && ids[i] == ids[i-1] || i >= 2 && ids[i] == ids[i-2] {
								t.Fatalf("%s: hop %d turns back", p.name, i+1)
							}
							if i >= 3 && ids[i] == ids[0] {
								again++
							}
							for j := range i {
								if d.SameFamily(got.Hops[i].Relay, got.Hops[j].Relay) && ids[i] != ids[j] {
									families++
								}
							}
						}
						guards[ids[0]] = true
					}
				}
				c.stop(t)
			}
			for _, p := range purposes {
				if count[p.name] != turns*each {
					t.Errorf("%s: %d paths", p.name, count[p.name])
				}
			}
			if families == 0 || again == 0 {
				t.Errorf("relays of one family in a path: %d; the guard as a later hop: %d", families, again)
			}
			if mode == guard.VanguardsFull && (stays == 0 || left == 0) {
				t.Errorf("%d vanguards stayed, %d left the network", stays, left)
			}
			t.Logf("%d guards, %d second hops, %d third hops; %d vanguards stayed and %d left; families %d, guard again %d", len(guards), len(seen[0]), len(seen[1]), stays, left, families, again)
		})
	}
}

// TestNewIdentityVanguards: a user's new identity has other vanguards; a reload keeps them.
func TestNewIdentityVanguards(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 80})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	c := isolated(t, netdir.Public(), refuse)
	now := func() []ident.RSAID {
		any1 := func(netdir.Relay) bool { return true }
		return c.vanguards.Layers(d, any1, newRand(), d.ValidAfter())[0]
	}
	first := now()
	middles, err := path.ParseSet([]string{"somebody"})
	if err != nil {
		t.Fatal(err)
	}
	c.Reload(Live{Path: path.Config{Middle: middles}})
	if !slices.Equal(first, now()) {
		t.Error("a reload changed the vanguards")
	}
	c.NewIdentity()
	if slices.Equal(first, now()) {
		t.Error("a new identity has the vanguards of the one before")
	}
}
