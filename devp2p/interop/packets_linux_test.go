package interop

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
	"time"

	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/host"
)

// sidecarGroup is the group of a sidecar's process, by which its packets are counted. The second sidecar has the group
// before it.
const sidecarGroup = 65534

// TestSidecarPackets is TestRelayBetween in a network namespace that has a way out. It
// counts the packets of the sidecars' processes: to relays of the Tor network, answers to
// geth on loopback, and to anywhere else, of which there is none.
func TestSidecarPackets(t *testing.T) {
	if !host.InNamespace() {
		gethtest.Program(t, "geth")
	}
	inNamespace(t, 8*time.Minute, sidecarPackets)
}

// inNamespace runs a test once more in a network namespace that has a way out, and f there.
func inNamespace(t *testing.T, limit time.Duration, f func(*testing.T)) {
	t.Helper()
	if host.InNamespace() {
		f(t)
		return
	}
	for _, reason := range []error{host.CanNamespace(), lookPath("nft"), lookPath("bash")} {
		if reason != nil {
			t.Skip("SKIPPED, NOTHING WAS TESTED:", reason)
		}
	}
	t.Setenv(builtVar, build(t))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ns, err := host.NewNamespace(ctx, fmt.Sprint("chive-eth-sidecar-", os.Getpid()))
	if err != nil && strings.Contains(err.Error(), "Operation not permitted") {
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := ns.WayOut(ctx); err != nil {
		t.Fatal(err)
	}
	out, err := ns.Command(ctx, os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", limit.String()).CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatal(err)
	}
}

func lookPath(program string) error {
	_, err := exec.LookPath(program)
	return err
}

// nft changes or shows the rules of the namespace.
func nft(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nft", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %q: %v: %s", args, err, out)
	}
	return string(out)
}

// counted returns the packets that a counter has seen.
func counted(t *testing.T, name string) int {
	t.Helper()
	found := regexp.MustCompile(`packets (\d+)`).FindStringSubmatch(nft(t, "list", "counter", "inet", "sidecar", name))
	if found == nil {
		t.Fatalf("no counter %s", name)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// orPorts are the ports of the relays, as a rule of nft has them.
func orPorts(nw *lab.Network) string {
	var tor []string
	for _, n := range nw.Nodes() {
		if _, port, ok := strings.Cut(n.ORPort, ":"); ok {
			tor = append(tor, port)
		}
	}
	slices.Sort(tor)
	return strings.Join(slices.Compact(tor), ", ")
}

// inGroup has a program run in a group of its own.
func inGroup(cmd *exec.Cmd, group uint32) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 0, Gid: group, NoSetGroups: true}}
}

// meter begins to count the packets of the processes of some groups. The set "nodes" says which group may connect to
// which port of a node on this machine, and the set "strays" gets what is counted as elsewhere, and of whom.
func meter(t *testing.T, nw *lab.Network, groups ...uint32) {
	t.Helper()
	nft(t, "add", "table", "inet", "sidecar")
	nft(t, "add", "chain", "inet", "sidecar", "out", "{ type filter hook output priority 0; }")
	nft(t, "add", "set", "inet", "sidecar", "nodes", "{ type gid . inet_service; }")
	nft(t, "add", "set", "inet", "sidecar", "strays", "{ type gid . ipv4_addr . inet_service . inet_service; flags dynamic; size 64; }")
	of := "meta skgid { " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(groups)), ", "), "[]") + " }"
	for _, rule := range [][2]string{
		{"tor", of + " ip daddr 127.0.0.1 tcp dport { " + orPorts(nw) + " }"},
		{"node", of + " ip daddr 127.0.0.1 meta skgid . tcp dport @nodes"}, // for who comes to the onion
		{"answers", of + " oifname lo ct direction reply"},                 // to programs that connected to them
		{"elsewhere", of},
	} {
		if rule[0] == "elsewhere" {
			nft(t, "add", "rule", "inet", "sidecar", "out", of+" meta l4proto { tcp, udp } update @strays { meta skgid . ip daddr . th sport . th dport }")
		}
		nft(t, "add", "counter", "inet", "sidecar", rule[0])
		nft(t, "add", "rule", "inet", "sidecar", "out", rule[1]+" counter name "+rule[0]+" return")
	}
}

// metered checks what was counted: nothing went elsewhere. What a group must not connect to may be named, besides what
// nobody must.
func metered(t *testing.T, group uint32, never ...string) {
	t.Helper()
	toTor, answers, elsewhere := counted(t, "tor"), counted(t, "answers"), counted(t, "elsewhere")
	t.Logf("packets: %d to relays of the Tor network, %d to nodes, %d answers to programs that connected, %d anywhere else", toTor, counted(t, "node"), answers, elsewhere)
	if elsewhere != 0 || toTor == 0 || answers == 0 {
		t.Error("not all packets went where they may:", nft(t, "list", "set", "inet", "sidecar", "strays"))
	}
	// The meter counts what goes elsewhere: on loopback, outside, and to a name server.
	for i, to := range append(never, "tcp/127.0.0.1/9", "tcp/10.77.0.50/30303", "udp/127.0.0.1/53") {
		cmd := exec.CommandContext(t.Context(), "timeout", "0.3", "bash", "-c", "echo x >/dev/"+to)
		inGroup(cmd, group)
		_ = cmd.Run() // nobody answers
		if got := counted(t, "elsewhere") - elsewhere; got <= i {
			t.Errorf("a packet to %s was not counted", to)
		}
	}
}

func sidecarPackets(t *testing.T) {
	nw := startLab(t, lab.Options{})
	groups := []uint32{sidecarGroup, sidecarGroup - 1}
	meter(t, nw, groups...)
	var ports []int                       // of the geths
	t.Run("between", func(t *testing.T) { // its end ends the sidecars
		between(t, nw, func(cmd *exec.Cmd, g *geth) func(string) {
			group := groups[len(ports)]
			ports = append(ports, g.info.Ports.Listener)
			nft(t, "add", "element", "inet", "sidecar", "nodes", fmt.Sprintf("{ %d . %d }", group, g.info.Ports.Listener))
			inGroup(cmd, group)
			return func(onion string) { // somebody comes to the onion before its geth goes to anybody
				before := counted(t, "node")
				c, err := nw.Client.DialContext(t.Context(), "tcp", net.JoinHostPort(onion, "30303"))
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if _, err := c.Write([]byte{0, 3, 'x', 'x', 'x'}); err != nil { // a first message that the sidecar cannot open: it is for geth
					t.Error(err)
				}
				g.await(t, "who comes to the onion", func(context.Context) bool { return counted(t, "node") > before })
			}
		}, "--network", nw.NetworkFile)
	})
	if t.Failed() {
		return
	}
	// A sidecar connects to the port of its own geth, and to that of no other.
	metered(t, groups[0], fmt.Sprint("tcp/127.0.0.1/", ports[1]))
	nft(t, "reset", "counter", "inet", "sidecar", "elsewhere")
	metered(t, groups[1], fmt.Sprint("tcp/127.0.0.1/", ports[0]))
}
