package onion_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
)

const (
	stageVar   = "CHIVE_LIBP2P_STAGE"   // which part of TestPackets this process is
	networkVar = "CHIVE_LIBP2P_NETWORK" // the network file of the hosts
	hostsGroup = 65534                  // the group of the hosts' process, by which its packets are counted
)

// TestPackets runs three hosts in a process of their own, in a network namespace with a way
// out. The kernel counts the packets of that process: to relays of the Tor network, and to
// anywhere else, of which there is none. It opens no other socket either.
func TestPackets(t *testing.T) {
	switch os.Getenv(stageVar) {
	case "hosts":
		packetsHosts(t)
		return
	case "strays":
		packetsStrays(t)
		return
	case "namespace":
		packetsNamespace(t)
		return
	}
	if testing.Short() {
		t.Skip("other programs")
	}
	for _, program := range []string{"unshare", "ip", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--net", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: no network namespace: %v: %s", err, out)
	}
	again(t, "namespace", exec.CommandContext(t.Context(), "unshare", "--net", os.Args[0]))
}

// again runs TestPackets as a part of it, in another process.
func again(t *testing.T, stage string, cmd *exec.Cmd, env ...string) {
	t.Helper()
	cmd.Args = append(cmd.Args, "-test.run", "^TestPackets$", "-test.v", "-test.timeout", patience.String())
	cmd.Env = append(append(os.Environ(), stageVar+"="+stage), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestPackets") {
		t.Fatalf("%s: %v", stage, err)
	}
}

// command runs a program of the system.
func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

func packetsNamespace(t *testing.T) {
	for _, c := range []string{
		"link set lo up",
		// A way out, whose other end nobody reads, so that a packet that wants to leave is a packet.
		"link add out0 type veth peer name out1",
		"addr add 10.77.0.1/24 dev out0", "link set out0 up", "link set out1 up",
		"route add default via 10.77.0.254",
	} {
		command(t, append([]string{"ip"}, strings.Fields(c)...)...)
	}
	nw := startLab(t, lab.Options{})
	var ports []string
	for _, n := range nw.Nodes() {
		if _, port, err := net.SplitHostPort(n.ORPort); err == nil {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	command(t, "nft", "add", "table", "inet", "hosts")
	command(t, "nft", "add", "chain", "inet", "hosts", "out", "{ type filter hook output priority 0; }")
	of := fmt.Sprint("meta skgid ", hostsGroup)
	for _, rule := range [][2]string{
		{"tor", of + " ip daddr 127.0.0.1 tcp dport { " + strings.Join(slices.Compact(ports), ", ") + " }"},
		{"elsewhere", of},
	} {
		command(t, "nft", "add", "counter", "inet", "hosts", rule[0])
		command(t, "nft", "add", "rule", "inet", "hosts", "out", rule[1]+" counter name "+rule[0]+" return")
	}
	counted := func(name string) int {
		found := regexp.MustCompile(`packets (\d+)`).FindStringSubmatch(command(t, "nft", "list", "counter", "inet", "hosts", name))
		if found == nil {
			t.Fatalf("no counter %s", name)
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	grouped := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: hostsGroup, NoSetGroups: true}}
		return cmd
	}
	again(t, "hosts", grouped(), networkVar+"="+nw.NetworkFile)
	toTor, elsewhere := counted("tor"), counted("elsewhere")
	t.Logf("packets of the hosts: %d to relays of the Tor network, %d anywhere else", toTor, elsewhere)
	if toTor == 0 || elsewhere != 0 {
		t.Error("not all packets went to the Tor network")
	}
	// The kernel counts what goes elsewhere.
	again(t, "strays", grouped())
	if n := counted("elsewhere") - elsewhere; n < len(strays) {
		t.Errorf("of %d packets %d were counted", len(strays), n)
	}
}

// strays are where a host must send nothing: outside, to a name server, and on loopback.
var strays = []string{"10.77.0.50:4001", "10.77.0.254:53", "127.0.0.1:4001"}

func packetsStrays(t *testing.T) {
	for _, to := range strays {
		c, err := net.Dial("udp", to)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		c.Close()
	}
}

func packetsHosts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw, err := chive.LoadNetwork(os.Getenv(networkVar))
	if err != nil {
		t.Fatal(err)
	}
	client, err := chive.New(chive.Config{Network: nw, DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	a, b, c := newHost(t, ctx, client), newHost(t, ctx, client), newHost(t, ctx, client)
	answer(a)
	answer(b)
	twoEcho(t, ctx, a, b)
	gossip(t, ctx, a, b, c)
	for _, text := range []string{
		"/ip4/10.77.0.50/tcp/4001", "/ip4/10.77.0.50/udp/4001/quic-v1", "/ip4/127.0.0.1/tcp/4001/ws", "/ip6/::1/tcp/4001",
		"/dns4/chive.example/tcp/4001", "/dnsaddr/chive.example",
	} {
		if err := a.Connect(ctx, peer.AddrInfo{ID: stranger(t), Addrs: []ma.Multiaddr{ma.StringCast(text)}}); err == nil {
			t.Errorf("it connected to %s", text)
		}
	}
	for _, s := range sockets(t) {
		if !strings.HasPrefix(s, "tcp connected") {
			t.Errorf("the process has a socket: %s", s)
		}
	}
	// The list has what there is.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	all := strings.Join(sockets(t), "\n")
	for _, kind := range []string{"tcp connected", "tcp not connected", "udp"} {
		if !strings.Contains(all, kind) {
			t.Errorf("the list of sockets has no %s: %s", kind, all)
		}
	}
}

// sockets returns the sockets of this process for the Internet's protocols.
func sockets(t *testing.T) []string {
	t.Helper()
	own := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil {
			continue // it was closed since
		}
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var out []string
	for _, kind := range []string{"tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6"} {
		table, err := os.ReadFile("/proc/self/net/" + kind)
		if os.IsNotExist(err) {
			continue // the kernel has no such sockets
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(table), "\n")[1:] {
			f := strings.Fields(line)
			if len(f) < 10 || !own[f[9]] {
				continue
			}
			state := ""
			if strings.HasPrefix(kind, "tcp") {
				if state = " connected"; f[3] == "0A" { // LISTEN
					state = " not connected"
				}
			}
			out = append(out, strings.TrimSuffix(kind, "6")+state+" "+f[1]+" to "+f[2])
		}
	}
	return out
}
