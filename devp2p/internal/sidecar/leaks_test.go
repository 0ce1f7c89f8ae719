package sidecar

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// good is a node that shows nothing.
func good(t *testing.T) view {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	v := view{info: &nodeInfo{Name: "Geth/v1", ENR: enode.NewV4(&key.PublicKey, net.IP{127, 0, 0, 1}, 30303, 0).String()}, port: 30303}
	v.peers = []*peerInfo{{}}
	v.peers[0].Network.RemoteAddress = "127.0.0.1:4"
	v.proc = private()
	v.proc.listens[30303] = true
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
	shows := func(kind socketKind, port uint16) func(*view) {
		return func(v *view) { v.proc.sockets[socket{kind, port}] = true }
	}
	other := func(watched time.Duration) func(*view) {
		return func(v *view) {
			v.info.Name, v.info.ENR, v.watched, v.enough = "Nethermind/v1", "", watched, time.Minute
			v.proc.args = []string{"nethermind"}
		}
	}
	found := map[string]bool{}
	for _, c := range []struct {
		change func(*view)
		want   string // in what is said; empty: nothing
	}{
		{func(v *view) {
			key, _ := crypto.GenerateKey()
			v.info.ENR = enode.NewV4(&key.PublicKey, net.IP{192, 0, 2, 1}, 1, 0).String()
		}, "record has an address"},
		{func(v *view) { v.info.ListenAddr, v.info.Ports.Discovery = "[::]:30303", 30303 }, ""}, // what it says is not what it does
		{func(v *view) { v.peers[0].Network.RemoteAddress = "192.0.2.1:4" }, "has peers"},
		{func(v *view) { v.peers[0].Network.RemoteAddress = "onion" }, "has peers"},
		{func(v *view) { v.peers[0].Network.RemoteAddress = "[2001:db8::1]:4" }, "has peers"},
		{func(v *view) { v.peers[0].Network.RemoteAddress = "[::1]:4" }, ""},
		{func(v *view) { v.peers[0].Network.RemoteAddress = "::ffff:127.0.0.1:4" }, ""},
		{args("--nat=none", "--netrestrict", "127.0.0.0/8"), "look names up"},
		{args("--nodiscover=false", "--nat=none", "--netrestrict", "127.0.0.0/8"), "look names up"},
		{args("--discovery.dns=", "--nat=none", "--netrestrict", "127.0.0.0/8"), ""},
		{args("--discovery.dns=enrtree://x", "--nat=none", "--netrestrict", "127.0.0.0/8"), "look names up"},
		{args("-nodiscover", "-nat", "none", "-netrestrict", "127.0.0.0/8,::1/128"), ""},
		{args("--nodiscover", "--netrestrict", "127.0.0.0/8"), "the router"},
		{args("--nodiscover", "--nat", "none"), "restricts"},
		{args("--nodiscover", "--nat", "none", "--netrestrict", "127.0.0.0/7"), "restricts"},
		{args("--nodiscover", "--nat", "none", "--netrestrict", "127.0.0.0/8,10.0.0.0/8"), "restricts"},
		{shows(udpSocket, 30303), "UDP"},
		{shows(listening, 30303), "listens"},
		{shows(connection, 443), "connections"},
		{shows(toNameServer, 53), "name server"},
		{shows(rawSocket, 0), "raw"},
		{func(v *view) { v.proc = nil }, "cannot be seen"},
		{func(v *view) { v.port = 30304 }, "does not listen"},
		{func(v *view) { v.port = 0 }, "does not listen"},
		{other(time.Minute), ""},
		{other(time.Second), "too short"},
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
		if !found[l.what] {
			t.Errorf("no test for %q", l.what)
		}
	}
}

// TestOtherClientLeaks: no rule about sockets asks which client it is, and each says what to do.
func TestOtherClientLeaks(t *testing.T) {
	for _, kind := range []socketKind{udpSocket, listening, connection, toNameServer, rawSocket} {
		v := good(t)
		v.info.Name, v.proc.args = "besu/v1", nil
		v.proc.sockets[socket{kind, 7}] = true
		if l := look(v); len(l) != 1 || strings.Contains(l[0].Text(), "geth") || !strings.Contains(l[0].Text(), "(port 7)") || l[0].Fix == "" {
			t.Errorf("%s: %v", kind, l)
		}
	}
	p := private()
	for i := range uint16(9) {
		p.sockets[socket{udpSocket, 10 * i}] = true
	}
	if got := strings.Join(p.of(udpSocket), ", "); got != "port 0, port 10, port 20, port 30, port 40, and 4 more" {
		t.Error(got)
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		table         string
		waits         bool
		local, remote string
		want          socket // the zero value: nothing leaves
	}{
		{"tcp", true, "127.0.0.1:30303", "0.0.0.0:0", socket{}},
		{"tcp6", true, "[::1]:30303", "[::]:0", socket{}},
		{"tcp", true, "0.0.0.0:30303", "0.0.0.0:0", socket{listening, 30303}},
		{"tcp6", true, "[::]:30303", "[::]:0", socket{listening, 30303}},
		{"tcp", true, "192.0.2.1:53", "0.0.0.0:0", socket{listening, 53}},
		{"tcp", false, "127.0.0.1:4", "127.0.0.1:30303", socket{}},
		{"tcp", false, "192.0.2.1:4", "192.0.2.2:443", socket{connection, 443}},
		{"tcp", false, "127.0.0.1:4", "127.0.0.53:53", socket{toNameServer, 53}},
		{"udp", false, "127.0.0.1:4", "127.0.0.53:53", socket{toNameServer, 53}},
		{"udp", false, "127.0.0.1:4", "0.0.0.0:0", socket{}},
		{"udp", false, "0.0.0.0:30303", "0.0.0.0:0", socket{udpSocket, 30303}},
		{"udp6", false, "[::]:30303", "[::]:0", socket{udpSocket, 30303}},
		{"udp", false, "192.0.2.1:4", "192.0.2.2:53", socket{udpSocket, 53}},
		{"udplite", false, "0.0.0.0:5", "0.0.0.0:0", socket{udpSocket, 5}},
		{"raw", false, "0.0.0.0:1", "0.0.0.0:0", socket{rawSocket, 0}},
		{"icmp6", false, "[::]:7", "[::]:0", socket{rawSocket, 0}},
	} {
		got, ok := classify(c.table, c.waits, netip.MustParseAddrPort(c.local), netip.MustParseAddrPort(c.remote))
		if ok != (c.want != socket{}) || ok && got != c.want {
			t.Errorf("%s %s to %s: %v, %v", c.table, c.local, c.remote, got, ok)
		}
	}
}
