package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/lab"
)

// execPatience bounds each program under chive exec.
const execPatience = 2 * time.Minute

// execRig is a network on loopback, and chive as a program that any user can run.
type execRig struct {
	nw    *lab.Network
	dir   string // readable by everyone
	chive string
	net   string   // the network file
	as    []string // what runs a command as another user; empty: nothing
	data  string   // the client's directory
}

func newExecRig(t *testing.T) *execRig {
	t.Helper()
	for _, p := range []string{"curl", "getent", "python3"} {
		_, err := exec.LookPath(p)
		labtest.Need(t, p, err)
	}
	labtest.Need(t, "user namespaces", exec.Command("unshare", "-Urn", "true").Run())
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	labtest.Need(t, "/dev/net/tun", err)
	tun.Close()
	ctx, cancel := context.WithTimeout(t.Context(), execPatience)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	})
	dir, err := os.MkdirTemp("", "chive-exec-test-") // t.TempDir is not open to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &execRig{nw: nw, dir: dir, chive: filepath.Join(dir, "chive"), net: filepath.Join(dir, "network.toml"), data: filepath.Join(dir, "data")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{self: r.chive, nw.NetworkFile: r.net} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return r
}

// nobody returns the rig of an ordinary user, to whom udev would give /dev/net/tun.
func (r *execRig) nobody(t *testing.T) *execRig {
	t.Helper()
	if os.Geteuid() != 0 {
		return r // so is this one
	}
	for _, p := range []string{"unshare", "setpriv"} {
		_, err := exec.LookPath(p)
		labtest.Need(t, p, err)
	}
	n := *r
	n.data = filepath.Join(r.dir, "data-of-nobody")
	if err := errors.Join(os.Mkdir(n.data, 0o700), os.Chown(n.data, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	device := filepath.Join(r.dir, "tun")
	if err := errors.Join(unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 200))), os.Chmod(device, 0o666)); err != nil {
		t.Fatal(err)
	}
	n.as = []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" /dev/net/tun && exec setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"`, device}
	return &n
}

// command returns chive exec with a program.
func (r *execRig) command(ctx context.Context, args ...string) *exec.Cmd {
	all := append(append([]string{}, r.as...), r.chive, "exec", "--network", r.net, "--data-dir", r.data)
	all = append(all, args...)
	cmd := exec.CommandContext(ctx, all[0], all[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+r.dir, "http_proxy=http://127.0.0.1:9", "ALL_PROXY=socks5h://127.0.0.1:9")
	cmd.Dir = r.dir
	cmd.ExtraFiles = []*os.File{os.Stdin, os.Stdin} // which the program must not get
	return cmd
}

// run runs a program and returns its output, errors too, and its exit code.
func (r *execRig) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), execPatience)
	defer cancel()
	cmd := r.command(ctx, args...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// page returns a URL of n bytes by a name.
func (r *execRig) page(t *testing.T, n int64) string {
	t.Helper()
	u, err := url.Parse(r.nw.URL(n))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = target.Name4 + ":" + u.Port()
	return u.String()
}

// TestExec: programs that know of no proxy reach the network, and nothing else, as root and as
// an ordinary user.
func TestExec(t *testing.T) {
	r := newExecRig(t)
	t.Run("root", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("SKIPPED, NOTHING WAS TESTED: it needs root")
		}
		execPrograms(t, r)
	})
	t.Run("user", func(t *testing.T) { execPrograms(t, r.nobody(t)) })
	t.Run("onion", func(t *testing.T) { execOnion(t, r) })
	t.Run("services", func(t *testing.T) { execServices(t, r) })
	t.Run("signals", func(t *testing.T) { execSignals(t, r) })
	t.Run("job", func(t *testing.T) { execJob(t, r) })
	t.Run("not ready", func(t *testing.T) { execNotReady(t, r) })
	t.Run("through", func(t *testing.T) { execThrough(t, r) })
	t.Run("variables", func(t *testing.T) { execVariables(t, r) })
}

// strangers are servers of this machine that the program may not reach: they count what comes.
type strangers struct {
	udp, tcp net.Addr
	came     chan string
}

func newStrangers(t *testing.T) *strangers {
	t.Helper()
	s := &strangers{came: make(chan string, 64)}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.udp, s.tcp = pc.LocalAddr(), l.Addr()
	ended := make(chan struct{}, 2)
	go func() {
		defer func() { ended <- struct{}{} }()
		b := make([]byte, 10)
		for {
			if _, _, err := pc.ReadFrom(b); err != nil {
				return
			}
			s.came <- "UDP"
		}
	}()
	go func() {
		defer func() { ended <- struct{}{} }()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			s.came <- "TCP"
		}
	}()
	t.Cleanup(func() { pc.Close(); l.Close(); <-ended; <-ended })
	return s
}

// nothing reports what came.
func (s *strangers) nothing(t *testing.T) {
	t.Helper()
	// What a test sends itself is there after what the program sent.
	c, err := net.Dial("udp", s.udp.String())
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte("last"))
	c.Close()
	if what := <-s.came; what != "UDP" || len(s.came) != 0 {
		t.Errorf("the program reached a server of this machine: %s, and %d more", what, len(s.came))
	}
}

// refusedBy is a Python program that tries what must be refused at once, and prints what it hears.
const refusedBy = `
import errno, socket, sys
def tell(what, f):
    try:
        f()
        print(what, "went through")
    except socket.timeout:
        print(what, "no answer")
    except OSError as e:
        print(what, errno.errorcode.get(e.errno, e))
def udp(family, host, port):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(20); s.connect((host, port)); s.send(b"x"); s.recv(10)
def tcp(host, port):
    socket.create_connection((host, port), 60).close()
def raw(family, kind, protocol):
    socket.socket(family, kind, protocol)
udp_port, tcp_port, tcp_host = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
tell("udp4", lambda: udp(socket.AF_INET, "192.0.2.7", 123))
tell("udp6", lambda: udp(socket.AF_INET6, "2001:db8::7", 123))
tell("dns elsewhere", lambda: udp(socket.AF_INET, "192.0.2.7", 53))
tell("local udp", lambda: udp(socket.AF_INET, "127.0.0.1", udp_port))
tell("local tcp", lambda: tcp("127.0.0.1", tcp_port))
tell("nameserver", lambda: tcp("198.18.0.2", 80))
tell("no name", lambda: tcp("100.64.9.9", 80))
tell("raw", lambda: raw(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tell("packet", lambda: raw(socket.AF_PACKET, socket.SOCK_RAW, 0))
s = socket.socket(socket.AF_UNIX); 
tell("abstract", lambda: s.connect("\0" + tcp_host))
`

func execPrograms(t *testing.T, r *execRig) {
	s := newStrangers(t)
	abstract := "chive-exec-test-" + strconv.Itoa(os.Getpid())
	l, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	out, code := r.run(t, "--", "curl", "-sS", "-m", "60", r.page(t, 100_000))
	want, err := io.ReadAll(target.Bytes(100_000))
	if err != nil || code != 0 || out != string(want) {
		t.Errorf("curl: exit code %d, %d bytes: %.200q", code, len(out), out)
	}
	out, code = r.run(t, "getent", "ahostsv4", "www.example.com")
	if addr, err := netip.ParseAddr(strings.SplitN(out+" ", " ", 2)[0]); err != nil || code != 0 || !netip.MustParsePrefix("100.64.0.0/10").Contains(addr) {
		t.Errorf("getent: exit code %d: %q", code, out)
	}
	_, udp, _ := net.SplitHostPort(s.udp.String())
	_, tcp, _ := net.SplitHostPort(s.tcp.String())
	out, code = r.run(t, "python3", "-c", refusedBy, udp, tcp, abstract)
	heard := "udp4 ECONNREFUSED\nudp6 ECONNREFUSED\ndns elsewhere ECONNREFUSED\nlocal udp ECONNREFUSED\nlocal tcp ECONNREFUSED\n" +
		"nameserver ECONNREFUSED\nno name ECONNREFUSED\nraw EPERM\npacket EPERM\nabstract ECONNREFUSED\n"
	if out != heard || code != 0 {
		t.Errorf("what must be refused: exit code %d:\n%s", code, out)
	}
	s.nothing(t)

	// Nor does it reach into the first process of its namespaces, which can do more, or see the machine's network devices.
	for _, what := range []string{"/proc/1/mem", "/proc/1/task/1/mem"} {
		if out, code := r.run(t, "python3", "-c", `import sys; open(sys.argv[1], "r+b")`, what); code != 1 || !strings.Contains(out, "Permission denied") {
			t.Errorf("%s: exit code %d: %s", what, code, out)
		}
	}
	out, code = r.run(t, "sh", "-c", `ls /sys/class/net; find /sys/devices -path '*/net/*' -name address; echo end`)
	if out != "end\n" || code != 0 {
		t.Errorf("network devices of the machine: exit code %d: %s", code, out)
	}

	// What the program has.
	out, _ = r.run(t, "sh", "-c", `grep -E '^(Cap(Eff|Prm|Bnd|Amb|Inh)|NoNewPrivs)' /proc/self/status; cat /proc/net/dev | tail -n +3 | cut -d: -f1; ls /proc | grep -c '^[0-9]'; env | grep -i -c proxy; cat /etc/resolv.conf; id -u; stat -c %a /proc/self/fd/4 2>&1 | head -c 4`)
	caps := "0000000000000000"
	uid := "65534"
	if len(r.as) == 0 {
		uid = strconv.Itoa(os.Getuid())
	}
	if uid == "0" {
		caps = "00000000000000fb"
	}
	want1 := fmt.Sprintf("CapInh:\t0000000000000000\nCapPrm:\t%s\nCapEff:\t%[1]s\nCapBnd:\t%[1]s\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n", caps)
	if !strings.HasPrefix(out, want1) {
		t.Errorf("capabilities: %s", out)
	}
	rest := strings.Fields(strings.TrimPrefix(out, want1))
	if len(rest) < 4 || rest[0] != "lo" && rest[0] != "tun0" || rest[1] != "lo" && rest[1] != "tun0" {
		t.Fatalf("interfaces: %s", out)
	}
	if n, err := strconv.Atoi(rest[2]); err != nil || n > 6 {
		t.Errorf("processes in sight: %s", rest[2])
	}
	if rest[3] != "0" || !strings.Contains(out, "nameserver 198.18.0.2\n") || !strings.Contains(out, "\n"+uid+"\n") || !strings.HasSuffix(out, "stat") {
		t.Errorf("variables, name server, user, descriptors: %s", out)
	}

	for script, want := range map[string]int{"exit 7": 7, "kill -KILL $$": 137, "kill -TERM $$": 143, "true": 0} {
		if out, code := r.run(t, "--", "sh", "-c", script); code != want || out != "" {
			t.Errorf("%s: exit code %d, not %d: %s", script, code, want, out)
		}
	}
	if out, code := r.run(t, "--", "no-such-program"); code != exitNotFound || !strings.Contains(out, "no-such-program") {
		t.Errorf("no program: exit code %d: %s", code, out)
	}
	broken := filepath.Join(r.dir, "broken")
	if err := os.WriteFile(broken, []byte("\x7fELF no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, code := r.run(t, "--", broken); code != exitNoStart || !strings.Contains(out, "exec format error") {
		t.Errorf("no program: exit code %d: %s", code, out)
	}
}

// execOnion: a program that knows of no proxy reaches an onion service by its name.
func execOnion(t *testing.T, r *execRig) {
	ctx, cancel := context.WithTimeout(t.Context(), execPatience)
	defer cancel()
	l, err := r.nw.Client.Listen(ctx, chive.OnionConfig{Ports: []int{8080}})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { io.WriteString(w, "hello by "+q.Host) })}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() { srv.Close(); <-served }()
	if err := l.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	// Newer versions of curl refuse such names themselves.
	const get = `import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=100).read().decode(), end="")`
	if out, code := r.run(t, "python3", "-c", get, "http://"+l.Address()+":8080/"); code != 0 || out != "hello by "+l.Address()+":8080" {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// execServices: libraries of the program find no service of the machine that looks names up, also where
// /etc/resolv.conf leads into one of their directories.
func execServices(t *testing.T, r *execRig) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOTHING WAS TESTED: it needs root")
	}
	m := *r
	m.as = []string{"unshare", "-m", "sh", "-ec", `cp -a /etc "$0/etc"
mount -t tmpfs t /run
mkdir -p /run/nscd /run/systemd/resolve /run/avahi-daemon /run/other
touch /run/nscd/socket /run/systemd/resolve/io.systemd.Resolve /run/avahi-daemon/socket /run/other/socket
echo nameserver 192.0.2.53 > /run/systemd/resolve/stub-resolv.conf
mount --bind "$0/etc" /etc
rm -f /etc/resolv.conf; ln -s ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
printf 'passwd: files\nhosts: resolve [!UNAVAIL=return] mdns4 files dns' > /etc/nsswitch.conf
exec "$@"`, r.dir}
	out, code := m.run(t, "sh", "-c", `cd /run; find nscd systemd avahi-daemon other -type f; cat /etc/resolv.conf /etc/nsswitch.conf; getent hosts www.example.com | cut -d. -f1; echo x > /etc/nsswitch.conf || echo kept; echo x > /run/nscd/socket || echo kept`)
	want := "systemd/resolve/stub-resolv.conf\nother/socket\nnameserver 198.18.0.2\noptions timeout:120 attempts:1\npasswd: files\nhosts: files dns\nnetworks: files\n100\n"
	if !strings.HasPrefix(out, want) || strings.Count(out, "kept\n") != 2 || code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	// Without a file for the name server the program would ask whom it likes.
	m.as = []string{"unshare", "-m", "sh", "-ec", `mount --bind "$0/etc" /etc; exec "$@"`, r.dir}
	if out, code := m.run(t, "true"); code != exitExec || !strings.Contains(out, "/etc/resolv.conf") {
		t.Errorf("no resolv.conf: exit code %d: %s", code, out)
	}
}

// execNotReady: when the client cannot start, the program is not started.
func execNotReady(t *testing.T, r *execRig) {
	mark := filepath.Join(r.dir, "mark")
	dead := *r
	b, err := os.ReadFile(r.net)
	if err != nil {
		t.Fatal(err)
	}
	dead.net, dead.data = filepath.Join(r.dir, "dead.toml"), filepath.Join(r.dir, "data-dead")
	// Nobody listens at port 1.
	if err := os.WriteFile(dead.net, replacePorts(b), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--start-timeout", "2s"}, {"--socks", "127.0.0.1:1"}} {
		out, code := dead.run(t, append(args, "touch", mark)...)
		if code != exitExec || !strings.Contains(out, "the program was not started") {
			t.Errorf("%q: exit code %d: %s", args, code, out)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%q: the program ran", args)
		}
	}
}

// replacePorts leads every address of a network file to where nobody listens.
func replacePorts(b []byte) []byte {
	var out []string
	for _, word := range strings.SplitAfter(string(b), "127.0.0.1:") {
		if len(out) > 0 {
			word = "1" + strings.TrimLeft(word, "0123456789")
		}
		out = append(out, word)
	}
	return []byte(strings.Join(out, ""))
}

// execThrough: the program uses the client of a proxy that runs, by its data directory and by its
// SOCKS port.
func execThrough(t *testing.T, r *execRig) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	running := exec.CommandContext(ctx, r.chive, "proxy", "--network", r.net, "--data-dir", r.data, "--socks", "127.0.0.1:0")
	out, err := running.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); running.Wait() }()
	b := make([]byte, 200)
	n, err := out.Read(b)
	addr, ok := strings.CutPrefix(strings.TrimSpace(string(b[:n])), "socks ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", b[:n], err)
	}
	go io.Copy(io.Discard, out)
	addr, _, _ = strings.Cut(addr, "\n")
	for _, args := range [][]string{nil, {"--socks", addr}, {"--socks", r.nw.SOCKS, "--data-dir", filepath.Join(r.dir, "unused")}} {
		if got, code := r.run(t, append(args, "--", "curl", "-sS", "-m", "60", "-o", "/dev/null", "-w", "%{size_download}", r.page(t, 100_000))...); got != "100000" || code != 0 {
			t.Errorf("%q: exit code %d: %s", args, code, got)
		}
	}
	if _, err := os.Stat(filepath.Join(r.dir, "unused")); err == nil {
		t.Error("a program that goes through a SOCKS port has a client, too")
	}
}

// execVariables: without namespaces, chive says that there is no guarantee, and the variables name a
// SOCKS port that only the program can use.
func execVariables(t *testing.T, r *execRig) {
	got, code := r.run(t, "--no-namespace", "--", "sh", "-c", `curl -sS -m 60 -o /dev/null -w '%{size_download}\n' `+r.page(t, 100_000)+
		`; curl -sS -m 60 -x "$(echo $ALL_PROXY | sed 's/exec:[^@]*/exec:wrong/')" `+r.page(t, 10)+`; env | grep -i '_proxy=' | wc -l; exit 9`)
	if code != 9 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "in the clear") || !strings.Contains(got, "\n100000\n") || !strings.Contains(got, "curl: (97)") || !strings.HasSuffix(got, "\n8\n") {
		t.Errorf("exit code %d: %s", code, got)
	}
	// The port of a proxy that runs, for which it needs no client.
	got, code = r.run(t, "--no-namespace", "--socks", r.nw.SOCKS, "--", "sh", "-c", "echo $https_proxy")
	if code != 0 || !strings.Contains(got, "socks5h://exec:") || !strings.Contains(got, "@"+r.nw.SOCKS) {
		t.Errorf("exit code %d: %s", code, got)
	}
}
