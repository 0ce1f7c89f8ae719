package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/devp2p/internal/sidecar"
)

// chiveEth runs a command line.
func chiveEth(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// onionNode returns a record with the onion of a key.
func onionNode(t *testing.T, seed byte) *enode.Node {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	address, err := chive.OnionAddress(key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return nodetest.Node(t, devp2p.Onion3(address), enr.TCP(30303))
}

// TestNodes does with lists what publishers and users do: two publishers sign lists, a third merges
// them, and a relay and a sidecar take the result.
func TestNodes(t *testing.T) {
	t.Chdir(t.TempDir())
	var keys []string
	for _, name := range []string{"one", "two", "three"} {
		key, err := chiveEth(t, "nodes", "key", name+".key")
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, strings.TrimSpace(key))
	}
	a, b, c := onionNode(t, 1), onionNode(t, 2), onionNode(t, 3)
	save := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save("records.txt", "# of one\n"+a.String()+"\n"+b.String()+"\n")
	for name, args := range map[string][]string{
		"one.list": {"--key", "one.key", "records.txt"}, "two.list": {"--key", "two.key", "--valid", "1h", b.String(), c.String()},
	} {
		text, err := chiveEth(t, append([]string{"nodes", "make"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		save(name, text)
	}
	text, err := chiveEth(t, "nodes", "merge", "--key", "three.key", "--nodes-key", keys[0], "--nodes-key", keys[1], "one.list", "two.list")
	if err != nil {
		t.Fatal(err)
	}
	save("all.list", text)
	if out, err := chiveEth(t, "nodes", "verify", "--nodes-key", keys[2], "all.list"); err != nil || !strings.HasPrefix(out, "all.list: 3 nodes, published ") {
		t.Errorf("%v: %s", err, out)
	}
	f := finding{trusting: trusting{keys: keys[2:]}, lists: []string{"all.list", "https://lists.example/"}}
	if nodes, err := f.files(); err != nil || len(nodes) != 3 {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
	if got, err := f.inside(&tor{proxy: "127.0.0.1:9050"}, devp2p.OnlyOnion, t.TempDir(), slog.New(slog.DiscardHandler), nil); err != nil || len(got) != 1 {
		t.Errorf("%d services, %v", len(got), err)
	}
	if _, err := f.inside(&tor{}, devp2p.Clearnet, t.TempDir(), slog.New(slog.DiscardHandler), nil); err == nil || !strings.Contains(err.Error(), "--nodes is read through Tor") {
		t.Errorf("a list at a URL without Tor: %v", err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nodes", "key", "one.key"}, "not replaced"},
		{[]string{"nodes", "make", "records.txt"}, "--key is needed"},
		{[]string{"nodes", "make", "--key", "one.list", "records.txt"}, "--key: one.list"},
		{[]string{"nodes", "make", "--key", "one.key", "--valid", "-1h", "records.txt"}, "valid"},
		{[]string{"nodes", "verify", "one.list"}, "--nodes-key is needed"},
		{[]string{"nodes", "verify", "--nodes-key", "5f", "one.list"}, "--nodes-key: a key"},
		{[]string{"nodes", "verify", "--nodes-key", keys[1], "one.list"}, "one.list: none of the trusted keys"},
		{[]string{"nodes", "merge", "--key", "three.key", "--nodes-key", keys[0], "one.list", "two.list"}, "two.list: none of the trusted keys"},
		{[]string{"relay", "--policy", "clearnet", "--data-dir", "r", "--nodes", "all.list"}, "--nodes-key is needed"},
		{[]string{"relay", "--policy", "clearnet", "--data-dir", "r", "--nodes", "all.list", "--nodes-key", keys[0]}, "--nodes: all.list: none of the trusted keys"},
		{[]string{"sidecar", "--ipc", "x", "--data-dir", "s", "--nodes", "records.txt", "--nodes-key", keys[0]}, "records.txt: the text is no list of nodes"},
	} {
		if out, err := chiveEth(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v %s", c.args, err, out)
		}
	}
}

// TestNobody: who knows no node is told what to give, once, and only then.
func TestNobody(t *testing.T) {
	for _, args := range [][]string{nil, {"--bootnodes", enode.NewV4(&nodetest.Key(t).PublicKey, []byte{127, 0, 0, 1}, 1, 0).URLv4()}} {
		s := &relaySettings{dataDir: filepath.Join(t.TempDir(), "data"), onionPort: 30303, maxPeers: 50, poolBytes: 1 << 20}
		s.policy = "clearnet"
		if args != nil {
			s.boot = args[1:]
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it ends when it has begun
		var out bytes.Buffer
		if err := s.run(ctx, &out, &out); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(out.String(), "No node is known") && strings.Contains(out.String(), "--nodes LIST"); told != (args == nil) {
			t.Errorf("with %v: %s", args, out.String())
		}
	}
	var out bytes.Buffer
	p := &said{out: &out, alone: true}
	p.report(sidecar.Status{Node: true})
	if strings.Contains(out.String(), "nobody") {
		t.Error("it is told before there is an onion")
	}
	for range 2 {
		p.report(sidecar.Status{Node: true, Record: onionNode(t, 1)})
	}
	if strings.Count(out.String(), "nobody: ") != 1 {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	p = &said{out: &out, alone: true}
	p.report(sidecar.Status{Node: true, Record: onionNode(t, 1), Nodes: 1})
	if strings.Contains(out.String(), "nobody") {
		t.Error("one who knows a node is told of nobody")
	}
}
