package socks

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace runs f on a thread with a network of its own, in which every packet goes
// to the loopback. Sockets that f opens, and programs that it starts, stay there;
// other goroutines do not.
func inNamespace(t *testing.T, tools []string, f func()) {
	t.Helper()
	missing := ""
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			missing = tool + " is not installed"
		}
	}
	if os.Geteuid() != 0 {
		missing = "a network namespace needs root"
	}
	if missing != "" {
		if os.Getenv("CHIVE_INTEROP") != "" {
			t.Fatal(missing)
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: " + missing)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("a network namespace: %v", err)
			return
		}
		for _, line := range []string{"ip link set lo up", "ip addr add 192.0.2.1/32 dev lo", "ip addr add 2001:db8::1/128 dev lo", "ip route add default dev lo", "ip -6 route add default dev lo"} {
			if !shell(t, line) {
				return
			}
		}
		f()
	}()
	<-done
}

// shell runs a line in the namespace of the calling thread.
func shell(t *testing.T, line string) bool {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", line, err, out)
	}
	return err == nil
}

// oneAnswer answers one HTTP request on each connection.
func oneAnswer(c *net.TCPConn) {
	b := make([]byte, 4096)
	if _, err := c.Read(b); err == nil {
		io.WriteString(c, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nonion")
	}
}

// fetch gets a URL with curl, and other options, in the namespace of the calling thread.
func fetch(args ...string) (string, error) {
	out, err := exec.Command("curl", append([]string{"--silent", "--show-error", "--noproxy", "*", "--max-time", "20"}, args...)...).CombinedOutput()
	return string(out), err
}

// transServer serves transparent ports on listeners of the calling thread's namespace.
func transServer(t *testing.T, cfg Config, addrs ...string) bool {
	t.Helper()
	s := NewTrans(cfg)
	served := make(chan error, len(addrs))
	for _, a := range addrs {
		l, err := ListenTrans(a, cfg.TProxy)
		if err != nil {
			t.Error(err)
			return false
		}
		go func() { served <- s.Serve(l) }()
	}
	t.Cleanup(func() {
		s.Close()
		for range addrs {
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
	})
	return true
}

// far are addresses that no machine of the namespace has.
const (
	far4 = "198.51.100.7"
	far6 = "2001:db8::7"
)

// checkTrans fetches from both far addresses, and checks that a connection to the port
// itself goes nowhere.
func checkTrans(t *testing.T, n *network, self ...string) {
	t.Helper()
	for _, url := range []string{"http://[" + far6 + "]:8080/", "http://" + far4 + ":80/"} {
		if got, err := fetch(url); err != nil || got != "onion" {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	for _, url := range self {
		if got, err := fetch(url); err == nil {
			t.Errorf("%s: the port connected to itself: %q", url, got)
		}
	}
	want := []Request{{Host: far6, Port: 8080}, {Host: far4, Port: 80}}
	got := n.requests()
	if len(got) != len(want) {
		t.Fatalf("%d requests reached the network, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if got[i].Host != w.Host || got[i].Port != w.Port || got[i].Key.Listener != "trans" {
			t.Errorf("%s port %d, want %s port %d", got[i].Host, got[i].Port, w.Host, w.Port)
		}
	}
}

// TestRedirect: connections of a program that knows of no proxy, which nftables or
// iptables redirect, go where the program wanted.
func TestRedirect(t *testing.T) {
	for name, rules := range map[string][]string{
		"nft": {
			"nft add table inet t",
			"nft 'add chain inet t out { type nat hook output priority -100; }'",
			"nft add rule inet t out ip daddr " + far4 + " tcp dport 1-65535 redirect to :9040",
			"nft add rule inet t out ip6 daddr " + far6 + " tcp dport 1-65535 redirect to :9040",
		},
		"iptables": {
			"iptables -t nat -A OUTPUT -d " + far4 + " -p tcp -j REDIRECT --to-ports 9040",
			"ip6tables -t nat -A OUTPUT -d " + far6 + " -p tcp -j REDIRECT --to-ports 9040",
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := peer(t, oneAnswer)
			n := &network{hosts: map[string]string{far4: at, far6: at}}
			inNamespace(t, []string{"ip", name, "curl"}, func() {
				if !transServer(t, Config{Dialer: n}, "127.0.0.1:9040", "[::1]:9040") {
					return
				}
				for _, r := range rules {
					if !shell(t, r) {
						return
					}
				}
				checkTrans(t, n, "http://127.0.0.1:9040/", "http://[::1]:9040/")
			})
		})
	}
}

// TestTProxy: the same by TPROXY, which leaves the addresses as they are. Packets of
// this machine take a second way through the loopback, as in the kernel's documentation.
func TestTProxy(t *testing.T) {
	for _, at := range [][]string{{"127.0.0.1:9040", "[::1]:9040"}, {"[::]:9040"}} {
		t.Run(at[0], func(t *testing.T) {
			target := peer(t, oneAnswer)
			n := &network{hosts: map[string]string{far4: target, far6: target}}
			inNamespace(t, []string{"ip", "nft", "curl"}, func() {
				if !transServer(t, Config{Dialer: n, TProxy: true}, at...) {
					return
				}
				for _, r := range []string{
					"ip rule add fwmark 1 lookup 100", "ip route add local default dev lo table 100",
					"ip -6 rule add fwmark 1 lookup 100", "ip -6 route add local default dev lo table 100",
					"nft add table inet t",
					"nft 'add chain inet t out { type route hook output priority -150; }'",
					"nft 'add chain inet t pre { type filter hook prerouting priority -150; }'",
					"nft add rule inet t out ip daddr " + far4 + " tcp dport 1-65535 meta mark set 1",
					"nft add rule inet t out ip6 daddr " + far6 + " tcp dport 1-65535 meta mark set 1",
					"nft add rule inet t pre meta mark 1 meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:9040",
					"nft add rule inet t pre meta mark 1 meta nfproto ipv6 meta l4proto tcp tproxy ip6 to '[::1]:9040'",
				} {
					if !shell(t, r) {
						return
					}
				}
				checkTrans(t, n, "http://127.0.0.1:9040/", "http://[::1]:9040/")
			})
		})
	}
}

// TestTransFailures: a connection that did not come by REDIRECT, and one to a
// destination that fails, end with a reset.
func TestTransFailures(t *testing.T) {
	var log bytes.Buffer
	s := NewTrans(Config{Dialer: &network{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	port := start(t, s)
	if err := answerOf(port); err == nil {
		t.Error("a connection to the port itself got an answer")
	}
	s.Close()
	if !strings.Contains(log.String(), "transparent port") || strings.Contains(log.String(), "127.0.0.1") {
		t.Errorf("the log: %s", log.String())
	}

	failing := NewTrans(Config{Dialer: &network{}})
	original := func(net.Conn) (netip.AddrPort, error) { return netip.MustParseAddrPort(far4 + ":80"), nil }
	failing.handle = func(ctx context.Context, c *client) { failing.serveTrans(ctx, c, original) }
	if err := answerOf(start(t, failing)); err == nil || err == io.EOF {
		t.Errorf("a failure looks like the end of an answer: %v", err)
	}
}

// answerOf connects, which may fail too, and reads.
func answerOf(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	return err
}

// TestListenTrans refuses what no transparent port can be.
func TestListenTrans(t *testing.T) {
	for _, a := range []string{"unix:/run/t", "host:1"} {
		if _, err := ListenTrans(a, false); err == nil {
			t.Errorf("listens at %s", a)
		}
	}
	if _, err := ParsePort(TransPort, "9040 NoIPv4Traffic NoIPv6Traffic"); err == nil || !strings.Contains(err.Error(), "nothing through") {
		t.Error(err)
	}
}
