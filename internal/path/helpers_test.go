package path

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var made = sync.OnceValues(func() (*netdir.Directory, error) {
	n, err := dirgen.New(dirgen.Options{Relays: 1500})
	if err != nil {
		return nil, err
	}
	if err := n.Publish(epoch); err != nil {
		return nil, err
	}
	return n.Directory()
})

// big is a made-up network of 1,500 relays.
func big(t testing.TB) *netdir.Directory {
	t.Helper()
	d, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ctor is the network of ten C tor relays on loopback whose documents netdoc
// keeps: r1 and r2 are family, r3 and r4 too, e1 and e2 exit; e1 lets any port
// out over IPv4, e2 ports 80 and 443, over IPv6 too.
func ctor(t testing.TB) *netdir.Directory {
	t.Helper()
	var l netdir.Loader
	d, _, err := l.Consensus(readCtor(t, "consensus-microdesc"), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, _, err = l.Microdescs(d, readCtor(t, "microdescs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 9)) }

func manager(t testing.TB, d *netdir.Directory, f guard.Filter, bridges ...guard.Candidate) *guard.Manager {
	t.Helper()
	m, err := guard.New(guard.Config{Rand: rng(1), Filter: f, Bridges: bridges}, &guard.MemStore{}, d.ValidAfter())
	if err != nil {
		t.Fatal(err)
	}
	m.Update(guard.FromNetdir(d), d.ValidAfter())
	return m
}

func set(t testing.TB, entries ...string) Set {
	t.Helper()
	s, err := ParseSet(entries)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// choose chooses or fails the test.
func choose(t testing.TB, c *Config, d *netdir.Directory, g Guards, r netdir.Rand, spec Spec) *Path {
	t.Helper()
	p, err := c.Choose(d, g, r, &spec, d.ValidAfter())
	if err != nil {
		t.Fatal(err)
	}
	if p.Guard != nil {
		p.Guard.Cancelled(d.ValidAfter())
	}
	return p
}

// refuses asserts that no path is found, for a reason with all these words.
func refuses(t testing.TB, c *Config, d *netdir.Directory, g Guards, spec Spec, words ...string) error {
	t.Helper()
	_, err := c.Choose(d, g, rng(1), &spec, d.ValidAfter())
	if err == nil {
		t.Fatal("a path was found")
	}
	if none := strings.HasPrefix(err.Error(), "path: no "); none && spec.hops() > 0 && !errors.Is(err, ErrNone) && !strings.Contains(err.Error(), "no guard") {
		t.Errorf("%q is not ErrNone", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	return err
}

func names(p *Path) string {
	var n []string
	for _, h := range p.Hops {
		if h.Relay.IsZero() {
			n = append(n, "?")
			continue
		}
		n = append(n, h.Relay.Nickname())
	}
	return strings.Join(n, " ")
}

func byName(t testing.TB, d *netdir.Directory, name string) netdir.Relay {
	t.Helper()
	for r := range d.All() {
		if r.Nickname() == name {
			return r
		}
	}
	t.Fatalf("no %s", name)
	return netdir.Relay{}
}

func readCtor(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../netdoc/testdata/ctor/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
