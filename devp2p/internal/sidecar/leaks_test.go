package sidecar

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// good is a node that shows nothing.
func good(t *testing.T) view {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	v := view{info: &p2p.NodeInfo{ListenAddr: "127.0.0.1:30303", ENR: enode.NewV4(&key.PublicKey, net.IP{127, 0, 0, 1}, 30303, 0).String()}}
	v.peers = []*p2p.PeerInfo{{}}
	v.peers[0].Network.RemoteAddress = "127.0.0.1:4"
	v.proc, err = private("")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestLeaks turns each leak on by itself.
func TestLeaks(t *testing.T) {
	if l := look(good(t)); len(l) != 0 {
		t.Fatalf("a node without leaks: %v", l)
	}
	args := func(a ...string) func(*view) {
		return func(v *view) { v.proc.args = append([]string{"geth"}, a...) }
	}
	found := map[string]bool{}
	for _, c := range []struct {
		change func(*view)
		want   string // in what is said; empty: nothing
	}{
		{func(v *view) { v.info.Ports.Discovery = 30303 }, "discovery is on"},
		{func(v *view) { v.info.ListenAddr = "[::]:30303" }, "outside loopback"},
		{func(v *view) { v.info.ListenAddr = ":30303" }, "outside loopback"},
		{func(v *view) { v.info.ListenAddr = "192.0.2.1:30303" }, "outside loopback"},
		{func(v *view) {
			key, _ := crypto.GenerateKey()
			v.info.ENR = enode.NewV4(&key.PublicKey, net.IP{192, 0, 2, 1}, 1, 0).String()
		}, "record has an address"},
		{func(v *view) { v.peers[0].Network.RemoteAddress = "192.0.2.1:4" }, "has peers"},
		{func(v *view) { v.peers[0].Network.RemoteAddress = "onion" }, "has peers"},
		{args("--nat=none", "--netrestrict", "127.0.0.0/8"), "look names up"},
		{args("--nodiscover=false", "--nat=none", "--netrestrict", "127.0.0.0/8"), "look names up"},
		{args("--discovery.dns=", "--nat=none", "--netrestrict", "127.0.0.0/8"), ""},
		{args("--discovery.dns=enrtree://x", "--nat=none", "--netrestrict", "127.0.0.0/8"), "look names up"},
		{args("-nodiscover", "-nat", "none", "-netrestrict", "127.0.0.0/8,::1/128"), ""},
		{args("--nodiscover", "--netrestrict", "127.0.0.0/8"), "ask the router"},
		{args("--nodiscover", "--nat", "any", "--netrestrict", "127.0.0.0/8"), "ask the router"},
		{args("--nodiscover", "--nat", "none"), "restricts"},
		{args("--nodiscover", "--nat", "none", "--netrestrict", "127.0.0.0/7"), "restricts"},
		{args("--nodiscover", "--nat", "none", "--netrestrict", "127.0.0.0/8,10.0.0.0/8"), "restricts"},
		{func(v *view) { v.proc.udp = 1 }, "UDP"},
		{func(v *view) { v.proc.listen = 1 }, "listens"},
		{func(v *view) { v.proc.connected = 1 }, "connections"},
		{func(v *view) { v.proc = nil }, "cannot be seen"},
	} {
		v := good(t)
		c.change(&v)
		got := look(v)
		switch {
		case c.want == "" && len(got) != 0:
			t.Errorf("%v: found %v", v.proc.args, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].What, c.want) || got[0].Fix == ""):
			t.Errorf("%q: found %v", c.want, got)
		}
		for _, l := range got {
			found[l.What] = true
		}
	}
	for _, l := range leaks {
		if !found[l.What] {
			t.Errorf("no test for %q", l.What)
		}
	}
}

// TestProcess looks at this process.
func TestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux only")
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before, err := processBehind(path)
	if err != nil {
		t.Fatal(err)
	}
	if before.args[0] != os.Args[0] {
		t.Errorf("command line %q", before.args)
	}
	udp, err := net.ListenPacket("udp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, quiet := range []string{"127.0.0.1:0", "[::1]:0"} {
		if l, err := net.Listen("tcp", quiet); err == nil { // perhaps there is no IPv6
			defer l.Close()
		}
	}
	after, err := processBehind(path)
	if err != nil {
		t.Fatal(err)
	}
	if after.udp != before.udp+1 || after.listen != before.listen+1 || after.connected != before.connected {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if _, err := processBehind(path + "x"); err == nil {
		t.Error("a process behind no socket")
	}
}

func TestKernelAddr(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1",
		"00000000000000000000000001000000:0035": "::1",
		"0000000000000000FFFF00000100007F:0035": "127.0.0.1",
	} {
		if got, err := kernelAddr(in); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "0100007F", "01:1", "0100007G:1"} {
		if _, err := kernelAddr(in); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}
