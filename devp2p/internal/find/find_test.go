package find

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/dnsdisc"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

const onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"

// hexKey is a node's public key as an enode URL has it.
func hexKey(key *ecdsa.PrivateKey) string {
	return fmt.Sprintf("%x", crypto.FromECDSAPub(&key.PublicKey)[1:])
}

func TestList(t *testing.T) {
	key := nodetest.Key(t)
	withOnion := nodetest.Signed(t, key, 1, devp2p.Onion3(onion), enr.TCP(30303))
	text := "# nodes\n\n" + withOnion.String() + " # mine\r\n" +
		"  enode://" + hexKey(key) + "@192.0.2.1:30303?discport=0\n" +
		"enode://" + hexKey(key) + "@" + strings.ToUpper(onion[:56]) + ".onion:30304\n"
	nodes, err := List(strings.NewReader(text))
	if err != nil || len(nodes) != 3 {
		t.Fatal(len(nodes), err)
	}
	for i, n := range nodes {
		if n.ID() != withOnion.ID() {
			t.Errorf("node %d has another identity", i)
		}
	}
	if host, port, err := devp2p.OnionOf(nodes[2]); err != nil || host != onion || port != 30304 {
		t.Errorf("onion of the URL: port %d, %v", port, err)
	}
	if !nodes[2].Pubkey().Equal(&key.PublicKey) {
		t.Error("the onion's node has no key")
	}
	if ep, ok := nodes[1].TCPEndpoint(); !ok || ep.String() != "192.0.2.1:30303" {
		t.Errorf("address of the URL: %v", ep)
	}
}

func TestListMistakes(t *testing.T) {
	key := nodetest.Key(t)
	bad := strings.Replace(onion, "p", "q", 1)
	for _, c := range []struct{ line, want string }{
		{"nonsense", "record"},
		{"enr:AAAA", "record"},
		{nodetest.Signed(t, key, 1, enr.WithEntry("onion3", bad), enr.TCP(1)).String(), "onion3"},
		{"enode://" + hexKey(key), "host and port"},
		{"enode://" + hexKey(key) + "@192.0.2.1", "HOST:PORT"},
		{"enode://" + hexKey(key) + "@" + onion, "HOST:PORT"},
		{"enode://" + hexKey(key) + "@" + onion + ":0", "port"},
		{"enode://" + hexKey(key) + "@" + bad + ":1", "onion3"},
		{"enode://" + hexKey(key) + "@example.org:1", "no name is looked up"},
		{"enode://00@192.0.2.1:1", "enode URL"},
		{strings.Repeat("x", maxLine), "bytes"},
	} {
		_, err := List(strings.NewReader("\n# two\n" + c.line + "\n"))
		if err == nil || !strings.Contains(err.Error(), c.want) || len(c.line) < maxLine && !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%.40s: %v", c.line, err)
		}
		if err != nil && strings.Contains(err.Error(), ".onion") && !strings.Contains(c.line, "example") {
			t.Errorf("the error has an address: %v", err)
		}
	}
	if _, err := List(strings.NewReader(strings.Repeat("\n", maxBytes+1))); err == nil {
		t.Error("a list of more than its bound")
	}
	n := nodetest.Signed(t, key, 1, enr.TCP(1)).String() + "\n"
	if _, err := List(strings.NewReader(strings.Repeat(n, maxNodes+1))); err == nil || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("a list with too many nodes: %v", err)
	}
}

func TestNodes(t *testing.T) {
	n := nodetest.Signed(t, nodetest.Key(t), 1, enr.TCP(1)).String()
	path := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(path, []byte(n+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Nodes([]string{n, path}); err != nil || len(got) != 2 {
		t.Error(got, err)
	}
	if _, err := Nodes([]string{path + "x"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("\nbad"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Nodes([]string{path}); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
}

// FuzzList reads lists.
func FuzzList(f *testing.F) {
	key := nodetest.Key(f)
	f.Add(nodetest.Signed(f, key, 1, devp2p.Onion3(onion), enr.TCP(1)).String())
	f.Add("enode://" + hexKey(key) + "@" + onion + ":1 # x\n\n")
	f.Add("enode://" + hexKey(key) + "@[::1]:1?discport=2")
	f.Fuzz(func(t *testing.T, text string) {
		nodes, err := List(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, n := range nodes {
			if _, _, err := devp2p.OnionOf(n); err != nil && !errors.Is(err, devp2p.ErrNoOnion) {
				t.Fatalf("a node with a malformed onion was taken: %v", err)
			}
			if n.Hostname() != "" {
				t.Fatal("a node with a host name was taken")
			}
		}
	})
}

// dnsServer answers DNS over HTTPS from a table of texts.
func dnsServer(t *testing.T, table map[string]string, asked *atomic.Int32) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		b, err := io.ReadAll(r.Body)
		var m dnsmessage.Message
		if err != nil || m.Unpack(b) != nil || r.Header.Get("Content-Type") != dnsMessage || r.Header.Get("User-Agent") != "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		m.Response = true
		q := m.Questions[0]
		text, ok := table[strings.TrimSuffix(q.Name.String(), ".")]
		if !ok {
			m.RCode = dnsmessage.RCodeNameError
		} else {
			var parts []string
			for len(text) > 255 {
				parts, text = append(parts, text[:255]), text[255:]
			}
			h := dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.TXTResource{TXT: append(parts, text)}})
		}
		out, err := m.Pack()
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", dnsMessage)
		_, _ = w.Write(out)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestTrees walks through a signed tree. The first endpoint is broken, and the client
// may look no name up.
func TestTrees(t *testing.T) {
	with := nodetest.Signed(t, nodetest.Key(t), 1, devp2p.Onion3(onion), enr.TCP(30303))
	without := nodetest.Signed(t, nodetest.Key(t), 1, enr.IPv4{192, 0, 2, 1}, enr.TCP(30303))
	tree, err := dnsdisc.MakeTree(1, []*enode.Node{with, without}, nil)
	if err != nil {
		t.Fatal(err)
	}
	treeURL, err := tree.Sign(nodetest.Key(t), "nodes.example.org")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	good := dnsServer(t, tree.ToTXT("nodes.example.org"), &asked)
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []*enode.Node
	err = Trees{URLs: []string{treeURL}, Client: good.Client(), Endpoints: []string{broken.URL, good.URL}, OnionOnly: true, Rate: 1000}.
		Run(ctx, func(n *enode.Node, source string) error {
			if got = append(got, n); len(got) == 2 {
				cancel() // the walk began again
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 1 || got[0].ID() != with.ID() || asked.Load() == 0 {
		t.Errorf("found %d nodes", len(got))
	}
	for _, n := range got {
		if n.ID() == without.ID() {
			t.Error("found a node without an onion")
		}
	}
}

func TestTreesMistakes(t *testing.T) {
	sink := func(*enode.Node, string) error { return nil }
	good := "enrtree://AKA3AM6LPBYEUDMVNU3BSVQJ5AD45Y7YPOHJLEF6W26QOE4VTUDPE@example.org"
	for name, c := range map[string]Trees{
		"no client": {URLs: []string{good}},
		"http":      {URLs: []string{good}, Client: http.DefaultClient, Endpoints: []string{"http://192.0.2.1/dns"}},
		"no url":    {URLs: []string{good}, Client: http.DefaultClient, Endpoints: []string{"dns"}},
		"no tree":   {URLs: []string{"enrtree://x"}, Client: http.DefaultClient},
	} {
		if err := c.Run(t.Context(), sink); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// question is the one of the tests.
func question(t testing.TB) dnsmessage.Question {
	t.Helper()
	return dnsmessage.Question{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}
}

func packed(t testing.TB, change func(*dnsmessage.Message)) []byte {
	t.Helper()
	q := question(t)
	m := dnsmessage.Message{Header: dnsmessage.Header{Response: true}, Questions: []dnsmessage.Question{q}}
	change(&m)
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func txt(name string, texts ...string) dnsmessage.Resource {
	h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}
	return dnsmessage.Resource{Header: h, Body: &dnsmessage.TXTResource{TXT: texts}}
}

func TestAnswers(t *testing.T) {
	b := packed(t, func(m *dnsmessage.Message) { m.Answers = []dnsmessage.Resource{txt("a.example.", "one", "two")} })
	got, err := parseAnswer(b, question(t))
	if err != nil || len(got) != 1 || got[0] != "onetwo" {
		t.Errorf("%q, %v", got, err)
	}
	for name, b := range map[string][]byte{
		"empty":     nil,
		"cut":       b[:len(b)-3],
		"question":  packed(t, func(m *dnsmessage.Message) { m.Response = false }),
		"truncated": packed(t, func(m *dnsmessage.Message) { m.Truncated = true }),
		"failure":   packed(t, func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeServerFailure }),
		"other":     packed(t, func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("b.example.") }),
		"none":      packed(t, func(m *dnsmessage.Message) { m.Questions = nil }),
		"too many": packed(t, func(m *dnsmessage.Message) {
			for range maxTexts + 1 {
				m.Answers = append(m.Answers, txt("a.example.", "x"))
			}
		}),
	} {
		if _, err := parseAnswer(b, question(t)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	big := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswer+1)) }))
	defer big.Close()
	r, err := newResolver(big.Client(), []string{big.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.LookupTXT(t.Context(), "a.example"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a big answer: %v", err)
	}
	if _, err := r.LookupTXT(t.Context(), strings.Repeat("x", 300)); err == nil {
		t.Error("a long name was asked for")
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(packed(f, func(m *dnsmessage.Message) { m.Answers = []dnsmessage.Resource{txt("a.example.", "one", "two")} }))
	q := question(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := parseAnswer(b, q); err == nil && len(got) > maxTexts {
			t.Fatal("too many texts")
		}
	})
}

// TestDiscv5 finds a node with an onion by UDP on loopback, and never in only-onion.
func TestDiscv5(t *testing.T) {
	sink := func(*enode.Node, string) error { return nil }
	if err := (Discv5{Policy: devp2p.OnlyOnion, Key: nodetest.Key(t), Listen: "127.0.0.1:0"}).Run(t.Context(), nil, sink); err == nil || !strings.Contains(err.Error(), "UDP") {
		t.Errorf("discv5 in only-onion: %v", err)
	}
	if err := (Discv5{Policy: devp2p.PreferOnion, Key: nodetest.Key(t), Listen: "localhost:0"}).Run(t.Context(), nil, sink); err == nil {
		t.Error("discv5 looked a name up")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := make(chan *enode.Node, 1)
	var key [2]*ecdsa.PrivateKey
	key[0], key[1] = nodetest.Key(t), nodetest.Key(t)
	run := func(i int, boot []*enode.Node, self func(*enode.LocalNode), sink Sink) <-chan error {
		done := make(chan error, 1)
		go func() {
			done <- Discv5{Policy: devp2p.PreferOnion, Key: key[i], Listen: "127.0.0.1:0", Bootnodes: boot, OnionOnly: true}.Run(ctx, self, sink)
		}()
		return done
	}
	a := run(0, nil, func(ln *enode.LocalNode) {
		ln.SetStaticIP(net.IP{127, 0, 0, 1})
		ln.Set(devp2p.Onion3(onion))
		ln.Set(enr.TCP(30303))
		first <- ln.Node()
	}, sink)
	found := false
	b := run(1, []*enode.Node{<-first}, func(ln *enode.LocalNode) { ln.SetStaticIP(net.IP{127, 0, 0, 1}) }, func(n *enode.Node, source string) error {
		found = n.ID() == enode.PubkeyToIDV4(&key[0].PublicKey) && source == "discv5"
		cancel()
		return nil
	})
	if err := errors.Join(<-a, <-b); err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Error("the node with the onion was not found")
	}
}
