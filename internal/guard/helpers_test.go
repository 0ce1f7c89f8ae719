package guard

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

const day = 24 * time.Hour

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fakeDir is a consensus that tests write by hand. It is valid for three hours
// from its time.
type fakeDir struct {
	at     time.Time
	relays []Candidate
	params map[string]int32
}

func (d *fakeDir) ValidAfter() time.Time { return d.at }
func (d *fakeDir) ValidUntil() time.Time { return d.at.Add(3 * time.Hour) }
func (d *fakeDir) Guards() iter.Seq[Candidate] {
	return slices.Values(d.relays)
}
func (d *fakeDir) Guard(id ident.RSAID) (Candidate, bool) {
	i := slices.IndexFunc(d.relays, func(c Candidate) bool { return c.ID.RSA == id })
	if i < 0 {
		return Candidate{}, false
	}
	return d.relays[i], true
}
func (d *fakeDir) Param(name string, def, lo, hi int32) int32 {
	if v, ok := d.params[name]; ok {
		return min(max(v, lo), hi)
	}
	return def
}

// without returns the consensus of a later time, with relays removed.
func (d *fakeDir) without(at time.Time, gone ...ident.RelayID) *fakeDir {
	e := *d
	e.at = at
	e.relays = slices.DeleteFunc(slices.Clone(d.relays), func(c Candidate) bool { return slices.Contains(gone, c.ID) })
	return &e
}

func relay(i int) Candidate {
	var c Candidate
	binary.BigEndian.PutUint32(c.ID.RSA[:], uint32(i+1))
	binary.BigEndian.PutUint32(c.ID.Ed[:], uint32(i+1))
	c.Nickname = fmt.Sprintf("relay%d", i)
	c.Addrs = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), 9001)}
	c.Weight = 1000
	c.Complete = true
	return c
}

func network(n int) *fakeDir {
	d := &fakeDir{at: epoch, params: map[string]int32{}}
	for i := range n {
		d.relays = append(d.relays, relay(i))
	}
	return d
}

func config(seed uint64) Config {
	return Config{Version: "test", Rand: rand.New(rand.NewPCG(seed, 1))}
}

// start makes a manager over the given network.
func start(t testing.TB, d *fakeDir) *Manager {
	t.Helper()
	m, err := New(config(1), &MemStore{}, d.at)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(d, d.at)
	return m
}

func pick(t testing.TB, m *Manager, now time.Time) *Use {
	t.Helper()
	return pickFor(t, m, Request{}, now)
}

func pickFor(t testing.TB, m *Manager, r Request, now time.Time) *Use {
	t.Helper()
	u, err := m.Pick(r, now)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// primaries are the identities of the primary guards, in order.
func primaries(m *Manager) []ident.RelayID {
	var ids []ident.RelayID
	for _, g := range m.cur.primary {
		ids = append(ids, g.id)
	}
	return ids
}

func sample(m *Manager) []ident.RelayID {
	var ids []ident.RelayID
	for _, g := range m.cur.sample {
		ids = append(ids, g.id)
	}
	return ids
}

// fail makes n circuits fail at their guard, and returns the guards.
func fail(t testing.TB, m *Manager, n int, now time.Time) []ident.RelayID {
	t.Helper()
	var ids []ident.RelayID
	for range n {
		u := pick(t, m, now)
		ids = append(ids, u.Guard().ID)
		u.Failed(now, Unreachable)
	}
	return ids
}

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: %v, not %v", what, got, want)
	}
}
