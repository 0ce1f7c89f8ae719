package find

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/dnsdisc"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// grove has some trees of a node each, which link to each other in circles and to themselves. It returns their URLs, their
// texts, and their nodes.
func grove(t *testing.T, count int) (urls []string, texts map[string]string, nodes []*enode.Node) {
	t.Helper()
	texts = make(map[string]string)
	domain := func(i int) string { return fmt.Sprintf("t%d.example.org", i%count) }
	first := nodetest.Key(t)
	link := func(i int) string { // the part of a link that a tree has: all trees have one key
		tree, err := dnsdisc.MakeTree(1, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		u, err := tree.Sign(first, domain(i))
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for i := range count {
		n := nodetest.Signed(t, nodetest.Key(t), 1, devp2p.Onion3(onion), enr.TCP(30303))
		tree, err := dnsdisc.MakeTree(1, []*enode.Node{n}, []string{link(i), link(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		u, err := tree.Sign(first, domain(i))
		if err != nil {
			t.Fatal(err)
		}
		urls, nodes = append(urls, u), append(nodes, n)
		for name, text := range tree.ToTXT(domain(i)) {
			texts[name] = text
		}
	}
	return urls, texts, nodes
}

// TestTreesInCircles: of trees that link to each other in a circle, each entry is looked up once; a walk that is longer than
// its bound begins anew, and looks up all of them again.
func TestTreesInCircles(t *testing.T) {
	urls, texts, nodes := grove(t, 3)
	walk := func(bound int64, until func(found, lookups int) bool) (lookups int) {
		var asked atomic.Int32
		server := dnsServer(t, texts, &asked)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		found := map[enode.ID]bool{}
		trees := Trees{URLs: urls[:1], Client: server.Client(), Endpoints: []string{server.URL}, OnionOnly: true, Rate: 1000, walk: bound}
		if err := trees.Run(ctx, func(n *enode.Node, _ string) error {
			if found[n.ID()] = true; until(len(found), int(asked.Load())) {
				cancel()
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !until(len(found), int(asked.Load())) {
			t.Errorf("%d nodes of %d, %d lookups", len(found), len(nodes), asked.Load())
		}
		return int(asked.Load())
	}
	all := walk(0, func(found, _ int) bool { return found == len(nodes) })
	if all > len(texts) {
		t.Errorf("%d lookups of %d entries", all, len(texts))
	}
	walk(int64(all)-2, func(_, lookups int) bool { return lookups > 2*all })
}

// TestTreesPoisoned: what is wrong in a tree is told once, without names, and brings no node.
func TestTreesPoisoned(t *testing.T) {
	urls, texts, _ := grove(t, 1)
	other, err := dnsdisc.MakeTree(1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Sign(nodetest.Key(t), "t0.example.org")
	if err != nil {
		t.Fatal(err)
	}
	changed := func(from, to string) map[string]string {
		out := map[string]string{}
		for name, text := range texts {
			if strings.HasPrefix(text, from) {
				text = to + strings.TrimPrefix(text, from)
			}
			out[name] = text
		}
		return out
	}
	for name, c := range map[string]struct {
		url   string
		texts map[string]string
		want  string
	}{
		"another publisher":      {foreign, texts, "signature"},
		"no tree":                {urls[0], nil, "NameError"},
		"another root":           {urls[0], changed("enrtree-root:v1 e=", "enrtree-root:v1 e=A"), "root"},
		"another record":         {urls[0], changed("enr:", "enr:-"), "[name]"},
		"a record that is large": {urls[0], changed("enr:", "enr:"+strings.Repeat("A", maxText)), "[name]"},
		"a branch of nothing":    {urls[0], changed("enrtree-branch:", "enrtree-branch:"+strings.Repeat("A", 26)+","), "[name]"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			server := dnsServer(t, c.texts, &asked)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var said bytes.Buffer
			trees := Trees{URLs: []string{c.url}, Client: server.Client(), Endpoints: []string{server.URL}, Rate: 1000, walk: 20,
				Log: slog.New(slog.NewTextHandler(writer(func(b []byte) { said.Write(b); cancel() }), nil))}
			if err := trees.Run(ctx, func(n *enode.Node, _ string) error {
				t.Errorf("it brought the node %v", crypto.PubkeyToAddress(*n.Pubkey()))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, c.want) || strings.Contains(text, "example") || strings.Contains(text, "127.0.0.1") {
				t.Errorf("the log says: %s", text)
			}
		})
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }
