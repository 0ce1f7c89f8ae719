package peers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/devp2p/internal/onionsim"
)

// newOnion returns an onion that nobody hosts.
func newOnion(t testing.TB) devp2p.Onion3 {
	t.Helper()
	l, err := onionsim.New().Node().ListenOnion(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return l.Onion()
}

// TestFreshest: the record with the highest sequence number counts, and one without a
// signature takes the place of none.
func TestFreshest(t *testing.T) {
	m := idle(t, Config{})
	key := nodetest.Key(t)
	record := func(seq uint64, o devp2p.Onion3) *enode.Node {
		var r enr.Record
		r.Set(enr.TCP(1))
		r.Set(o)
		r.SetSeq(seq)
		return signRecord(t, key, &r)
	}
	one, two := newOnion(t), newOnion(t)
	unsigned := enode.NewV4(&key.PublicKey, nil, 1, 0).WithHostname(newOnion(t).Addr())
	for _, n := range []*enode.Node{unsigned, record(5, one), record(4, two), unsigned} {
		if err := m.Add(n, "test"); err != nil {
			t.Fatal(err)
		}
	}
	id := enode.PubkeyToIDV4(&key.PublicKey)
	if e := m.table[id]; len(m.table) != 1 || e.node.Seq() != 5 || e.onion != one.Addr() || m.onions[one.Addr()] != 1 || len(m.onions) != 1 {
		t.Errorf("%+v %v", e, m.onions)
	}
	if err := m.Add(record(6, two), "test"); err != nil || m.table[id].onion != two.Addr() || len(m.onions) != 1 {
		t.Errorf("%v %+v", err, m.onions)
	}
	self := signRecord(t, m.cfg.Key, func() *enr.Record { var r enr.Record; r.Set(enr.TCP(1)); r.Set(one); return &r }())
	if m.Add(self, "test") == nil {
		t.Error("this node was added")
	}
}

// TestTableBounded: one source cannot drive the others' nodes out, and one onion has few
// nodes.
func TestTableBounded(t *testing.T) {
	m := idle(t, Config{})
	o := newOnion(t)
	for i := range maxPerOnion + 3 {
		if err := m.Add(nodetest.Peer(t, o), "sybil"); (err != nil) != (i >= maxPerOnion) {
			t.Errorf("node %d of one onion: %v", i, err)
		}
	}
	honest := map[enode.ID]bool{}
	for range 20 {
		n := nodetest.Peer(t, newOnion(t))
		honest[n.ID()] = true
		if err := m.Add(n, "list"); err != nil {
			t.Fatal(err)
		}
	}
	for len(m.table) < maxNodes {
		if err := m.Add(nodetest.Peer(t, newOnion(t)), "flood"); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		if err := m.Add(nodetest.Peer(t, newOnion(t)), "flood"); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.table) != maxNodes {
		t.Errorf("%d nodes", len(m.table))
	}
	for id := range honest {
		if m.table[id] == nil {
			t.Error("an honest node was driven out")
		}
	}
}

// TestStore: a file comes back as it was, and what this package cannot have written is
// refused with a reason.
func TestStore(t *testing.T) {
	m := idle(t, Config{})
	for range 3 {
		if err := m.Add(nodetest.Peer(t, newOnion(t)), "list"); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "peers.json")
	if err := m.save(path); err != nil {
		t.Fatal(err)
	}
	again := idle(t, Config{})
	if err := again.load(path); err != nil || len(again.table) != 3 || len(again.onions) != 3 {
		t.Fatalf("%v, %d nodes", err, len(again.table))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	n := nodetest.Peer(t, newOnion(t)).String()
	var many strings.Builder
	for i := range maxNodes + 1 {
		fmt.Fprintf(&many, `%s{"node":"x"}`, ","[:min(i, 1)])
	}
	for want, text := range map[string]string{
		"not a list":     "x",
		"version 2":      `{"version":2,"nodes":[]}`,
		"unknown field":  `{"version":1,"nodes":[],"more":1}`,
		"after":          `{"version":1,"nodes":[]} {}`,
		"node 1":         `{"version":1,"nodes":[{"node":"enr:xx","source":""}]}`,
		"twice":          fmt.Sprintf(`{"version":1,"nodes":[{"node":%q},{"node":%q}]}`, n, n),
		"score":          fmt.Sprintf(`{"version":1,"nodes":[{"node":%q,"score":1e9}]}`, n),
		"failures":       fmt.Sprintf(`{"version":1,"nodes":[{"node":%q,"failures":-1}]}`, n),
		"source":         fmt.Sprintf(`{"version":1,"nodes":[{"node":%q,"source":%q}]}`, n, strings.Repeat("x", 200)),
		"more than 2048": `{"version":1,"nodes":[` + many.String() + `]}`,
		"":               strings.Repeat(" ", maxStore+1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := idle(t, Config{}).load(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", want, err)
		}
	}
	// Nodes of another policy are left out.
	m = idle(t, Config{})
	clear := nodetest.Peer(t, enr.IPv4(net.IPv4(192, 0, 2, 1))).String()
	if err := os.WriteFile(path, fmt.Appendf(nil, `{"version":1,"nodes":[{"node":%q},{"node":%q}]}`, clear, n), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.load(path); err != nil || len(m.table) != 1 {
		t.Errorf("%v, %d nodes", err, len(m.table))
	}
}

// FuzzStore reads any bytes as the file of nodes.
func FuzzStore(f *testing.F) {
	f.Add([]byte(`{"version":1,"nodes":[]}`))
	f.Add(fmt.Appendf(nil, `{"version":1,"nodes":[{"node":%q,"source":"list","score":1,"failures":2}]}`, nodetest.Peer(f, newOnion(f)).String()))
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := parseStore(data)
		if err == nil && len(nodes) > maxNodes {
			t.Fatal("too many nodes")
		}
		for _, n := range nodes {
			enode.MustParse(n.Node) // load relies on it
		}
	})
}

func TestBackoff(t *testing.T) {
	const least, most = 10 * time.Second, time.Minute
	for failures, want := range map[int]time.Duration{1: least, 2: 2 * least, 3: 4 * least, 4: most, 100: most, 1 << 30: most} {
		if got := backoff(failures, least, most, 0.5); got != want {
			t.Errorf("%d failures: %v, not %v", failures, got, want)
		}
		if lo, hi := backoff(failures, least, most, 0), backoff(failures, least, most, 0.999); lo < want*3/4 || hi > want*5/4 || lo == hi {
			t.Errorf("%d failures: from %v to %v", failures, lo, hi)
		}
	}
}

func TestBansBounded(t *testing.T) {
	b := bans[int]{most: 10}
	now := time.Now()
	for i := range 100 {
		b.add(i, now.Add(time.Duration(i+1)*time.Minute), now)
	}
	if len(b.until) != 10 || b.has(99, now).IsZero() || !b.has(5, now).IsZero() || !b.has(99, now.Add(24*time.Hour)).IsZero() {
		t.Errorf("%v", b.until)
	}
}
