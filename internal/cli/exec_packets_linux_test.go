package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/netns"
)

// sprays is a Python program that sends whatever it can to where nobody is: addresses of the
// way out's network, of the Internet, of everybody, by both families.
const sprays = `
import socket
def udp(family, host, port):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for i in range(5): s.sendto(b"x", (host, port))
def tcp(family, host, port):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(0.5); s.connect((host, port))
def ping():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); s.sendto(b"\x08\0\0\0\0\0\0\0", ("192.0.2.7", 0))
for host in "192.0.2.7", "10.77.0.1", "10.77.0.255", "255.255.255.255", "224.0.0.251", "198.18.0.2", "198.18.0.3":
    for f, port in (udp, 53), (udp, 123), (udp, 443), (udp, 5353), (tcp, 53), (tcp, 443):
        try: f(socket.AF_INET, host, port)
        except OSError: pass
for host in "2001:db8::7", "fd15:159f:ab53::9", "ff02::fb%tun0", "fe80::1%tun0":
    for f in udp, tcp:
        try: f(socket.AF_INET6, host, 5353)
        except OSError: pass
try: ping()
except OSError: pass
try: socket.getaddrinfo("leak.example.com", 80)
except OSError: pass
print("sprayed")
`

// TestExecPackets: in a network with a way out, a program under chive exec sends nothing there, and
// no datagram to this machine, whatever it tries. All that leaves are the links of the client.
func TestExecPackets(t *testing.T) {
	if netns.Inside() {
		execPackets(t)
		return
	}
	labtest.Need(t, "a network namespace", netns.Available())
	for _, p := range []string{"nft", "python3"} {
		_, err := exec.LookPath(p)
		labtest.Need(t, p, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	ns, err := netns.New(ctx, fmt.Sprint("chive-exec-", os.Getpid()))
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
	out, err := ns.Command(ctx, os.Args[0], "-test.run", "^TestExecPackets$", "-test.v", "-test.timeout", "4m").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestExecPackets") {
		t.Fatalf("%v: %s", err, out)
	}
}

// counter returns how many packets a counter of the namespace has seen.
func counter(t *testing.T, name string) int {
	t.Helper()
	out, err := exec.Command("nft", "list", "counter", "inet", "exec", name).CombinedOutput()
	found := regexp.MustCompile(`packets (\d+)`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("counter %s: %v: %s", name, err, out)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func execPackets(t *testing.T) {
	r := newExecRig(t)
	// Exits connect to where the program wants to go. So chive exec has a group of its own, by which the
	// packets of its sockets are known. Those that have no socket here, or are no TCP, are nobody's.
	rules := `add table inet exec
add counter inet exec out
add counter inet exec datagrams
add counter inet exec links
add chain inet exec leaves { type filter hook output priority 0 ; }
add rule inet exec leaves oifname != "lo" meta l4proto != tcp counter name out
add rule inet exec leaves oifname != "lo" meta l4proto tcp meta skgid != 0 counter name out
add rule inet exec leaves oifname "lo" meta l4proto != tcp counter name datagrams
add rule inet exec leaves oifname "lo" meta l4proto tcp ip daddr 127.0.0.1 meta skgid 65534 counter name links
`
	load := exec.Command("nft", "-f", "-")
	load.Stdin = strings.NewReader(rules)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v: %s", err, out)
	}
	// The counters see what goes out.
	c, err := net.Dial("udp", "192.0.2.7:9")
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte("x"))
	c.Close()
	before := counter(t, "out")
	if before == 0 {
		t.Fatal("the test is blind: a datagram to outside was not counted")
	}
	datagrams, links := counter(t, "datagrams"), counter(t, "links")
	root := *r
	root.as = []string{"setpriv", "--regid", "65534", "--clear-groups", "--"}
	for _, who := range []*execRig{&root, r.nobody(t)} {
		if out, code := who.run(t, "python3", "-c", sprays); code != 0 || out != "sprayed\n" {
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	if n := counter(t, "out") - before; n != 0 {
		t.Errorf("%d packets left by the way out", n)
	}
	if n := counter(t, "datagrams") - datagrams; n != 0 {
		t.Errorf("%d packets on loopback are not TCP", n)
	}
	if counter(t, "links") == links {
		t.Error("the client used no link")
	}
}
