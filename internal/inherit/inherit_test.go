//go:build unix

package inherit

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSystemd: the ports that systemd hands over are used, and programs that the process starts see
// neither them nor the variables.
func TestSystemd(t *testing.T) {
	one, at := tcp(t, "tcp4", "127.0.0.1:0")
	all, everywhere := tcp(t, "tcp", ":0")
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	datagrams, socket := file(t, pc.(*net.UDPConn)), ""
	local, socket := unixSocket(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(socket), link); err != nil {
		t.Fatal(err)
	}
	c := begin(t, job{Env: activated(4, "a:b:c:d"), Ports: []port{
		{"unix", filepath.Join(link, "s")}, {"tcp", "0.0.0.0:" + portOf(t, everywhere)}, {"udp", pc.LocalAddr().String()}, {"tcp", at}, {"tcp", "127.0.0.1:0"},
	}}, one, all, datagrams, local)
	out := c.hear()
	if out.Take != "" || out.Left != "" || !slices.Equal(out.Before, []bool{true, true, true, true, false}) {
		t.Errorf("%+v", out)
	}
	if out.At[0] != filepath.Join(link, "s") || out.At[1] != everywhere || out.At[2] != pc.LocalAddr().String() || out.At[3] != at {
		t.Errorf("open at %q", out.At)
	}
	if len(out.Vars) > 0 || len(out.Leaks) > 0 {
		t.Errorf("programs that it starts would see %q and the descriptors %v", out.Vars, out.Leaks)
	}
	for network, addr := range map[string]string{"tcp": at, "unix": socket} {
		if pid := answers(t, network, addr); pid != strconv.Itoa(c.Process.Pid) {
			t.Errorf("%s: %q answers", addr, pid)
		}
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Error("the socket of systemd has gone:", err)
	}
}

// TestWrongHandOver: what is wrong ends the start with a sentence that names it.
func TestWrongHandOver(t *testing.T) {
	plain, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	good, at := tcp(t, "tcp4", "127.0.0.1:0")
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	pair := os.NewFile(uintptr(ends[0]), "pair")
	defer pair.Close()
	defer unix.Close(ends[1])
	packets, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	seq := os.NewFile(uintptr(packets), "seq")
	defer seq.Close()
	pid := "LISTEN_PID=$$"
	for _, c := range []struct {
		name  string
		env   []string
		files []*os.File
		ports []port
		take  string
		left  string
	}{
		{name: "nothing"},
		{name: "another process", env: []string{"LISTEN_PID=1", "LISTEN_FDS=1"}, files: []*os.File{plain}},
		{name: "no process", env: []string{"LISTEN_PID=x", "LISTEN_FDS=1"}, files: []*os.File{good}, take: `LISTEN_PID is "x"`},
		{name: "a billion", env: []string{pid, "LISTEN_FDS=1000000000"}, files: []*os.File{good}, take: `LISTEN_FDS is "1000000000"`},
		{name: "fewer than none", env: []string{pid, "LISTEN_FDS=-1"}, files: []*os.File{good}, take: `LISTEN_FDS is "-1"`},
		{name: "no number", env: []string{pid}, take: `LISTEN_FDS is ""`},
		{name: "none", env: []string{pid, "LISTEN_FDS=0"}},
		{name: "a file", env: activated(2, "a:b"), files: []*os.File{good, plain}, take: `descriptor 4 ("b") is no socket`},
		{name: "closed", env: activated(30, ""), files: []*os.File{good}, take: `is no socket`},
		{name: "a connection", env: activated(1, "a"), files: []*os.File{pair}, take: `descriptor 3 ("a") is a connection`},
		{name: "packets", env: activated(1, "a"), files: []*os.File{seq}, take: `descriptor 3 ("a") is a socket of another kind`},
		{name: "wanted", env: activated(1, "a"), files: []*os.File{good}, ports: []port{{"tcp", at}}},
		{name: "not wanted", env: activated(1, "web.socket"), files: []*os.File{good}, ports: []port{{"tcp", "127.0.0.1:0"}}, left: `descriptor 3 ("web.socket") is open at ` + at},
		{name: "wanted for datagrams", env: activated(1, ""), files: []*os.File{good}, ports: []port{{"udp", at}}, left: `descriptor 3 is open at ` + at},
		{name: "doubled", env: activated(2, "a:a"), files: []*os.File{good, good}, ports: []port{{"tcp", at}}, left: `descriptor 4 ("a") is open at ` + at},
		{name: "no succession", env: []string{ownVar + "=x"}, take: ownVar},
		{name: "of another process", env: []string{ownVar + `={"PID":1,"Ports":[{"FD":3,"Network":"tcp"}]}`}, files: []*os.File{plain}},
		{name: "a file of the program before", env: []string{ownVar + `={"PID":$$,"Ports":[{"FD":3,"Network":"tcp"}]}`}, files: []*os.File{plain}, take: "descriptor 3 of the program before is no socket"},
		{name: "of another kind", env: []string{ownVar + `={"PID":$$,"Ports":[{"FD":3,"Network":"udp"}]}`}, files: []*os.File{good}, take: "descriptor 3 of the program before is not of the kind"},
		{name: "standard output", env: []string{ownVar + `={"PID":$$,"Ports":[{"FD":1,"Network":"udp"}]}`}, take: "names the descriptor 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := begin(t, job{Env: c.env, Ports: c.ports}, c.files...)
			out := p.hear()
			for _, e := range [][2]string{{out.Take, c.take}, {out.Left, c.left}} {
				if !strings.Contains(e[0], e[1]) || (e[0] == "") != (e[1] == "") {
					t.Errorf("the error is %q, want %q", e[0], e[1])
				}
			}
			if wrong := c.take != "" || c.left != ""; out.Config != wrong {
				t.Errorf("an error in the settings: %v, want %v", out.Config, wrong)
			}
			if len(out.Vars) > 0 {
				t.Errorf("programs that it starts would see %q", out.Vars)
			}
			if err := p.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSuccession: a program takes over the ports of the one before it in the process, also those whose
// number the system has chosen, and closes those that it does not want.
func TestSuccession(t *testing.T) {
	fixed, socket := unixSocket(t)
	dir := t.TempDir()
	own, gone := filepath.Join(dir, "own"), filepath.Join(dir, "gone")
	ports := []port{{"unix", socket}, {"unix", own}, {"tcp", "127.0.0.1:0"}, {"tcp", "127.0.0.1:0"}, {"udp", "127.0.0.1:0"}}
	first := job{
		Env: activated(1, ""), Ports: append(slices.Clone(ports), port{"unix", gone}, port{"tcp4", "127.0.0.1:0"}),
		Next: &job{Ports: ports, Next: &job{Ports: ports}},
	}
	c := begin(t, first, fixed)
	before := c.hear()
	pid := strconv.Itoa(c.Process.Pid)
	for i := range 2 {
		c.next()
		after := c.hear()
		if after.Take != "" || after.Left != "" || after.Times != i+1 || len(after.Vars) > 0 || len(after.Leaks) > 0 {
			t.Errorf("%+v", after)
		}
		if !slices.Equal(after.At, before.At[:len(ports)]) || slices.Contains(after.Before, false) {
			t.Errorf("the successor is at %q (%v), want %q", after.At, after.Before, before.At)
		}
		if n := strings.Count(after.Log, "the program before"); n != 2*(1-i) {
			t.Errorf("the log has %d ports that are not wanted: %s", n, after.Log)
		}
		for i, network := range []string{"unix", "unix", "tcp", "tcp"} {
			if by := answers(t, network, after.At[i]); by != pid {
				t.Errorf("%s: %q answers, want %s", after.At[i], by, pid)
			}
		}
		if _, err := net.Dial("tcp", before.At[len(ports)+1]); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error("a port that is not wanted:", err)
		}
		if _, err := os.Lstat(gone); !errors.Is(err, fs.ErrNotExist) {
			t.Error("a socket that is not wanted:", err)
		}
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the last program leaves its socket:", err)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Error("the socket of systemd has gone:", err)
	}
}

// TestSignalsMeanwhile: signals for the program, other than those that end it, do nothing to a successor that does not listen to
// them yet: they came a moment too late for the program before it.
func TestSignalsMeanwhile(t *testing.T) {
	const text = `{"Log":"it goes on"}`
	c := begin(t, job{Ports: []port{{"tcp", "127.0.0.1:0"}}, Shell: "kill -HUP $$; kill -USR2 $$; echo '" + text + "'; kill -TERM $$; echo '" + text + "'"})
	c.hear()
	c.next()
	if out := c.hear(); out.Log != "it goes on" {
		t.Errorf("%+v", out)
	}
	var status *exec.ExitError
	if err := c.end(); !errors.As(err, &status) || status.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Error("SIGTERM:", err)
	}
}

// TestKeep: kept ports stay open without their listeners. Release closes them, and removes their files.
func TestKeep(t *testing.T) {
	process = set{taken: true}
	defer func() { process = set{} }()
	l, err := Listen(new(net.ListenConfig), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed, err := Listen(new(net.ListenConfig), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	path := filepath.Join(t.TempDir(), "s")
	u, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	u.SetUnlinkOnClose(false)
	own, err := OwnUnix(path, u)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Keep()
	if err != nil {
		t.Fatal(err)
	}
	if len(k.ports) != 2 {
		t.Errorf("%d ports are kept", len(k.ports))
	}
	if _, err := Keep(); err == nil {
		t.Error("the ports are kept twice")
	}
	if err := errors.Join(l.Close(), own.Close()); err != nil {
		t.Fatal(err)
	}
	for network, addr := range map[string]string{"tcp": l.Addr().String(), "unix": path} {
		c, err := net.Dial(network, addr)
		if err != nil {
			t.Fatal("a kept port:", err)
		}
		c.Close()
	}
	k.Release()
	if _, err := net.Dial("tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error("a port that was given up:", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a socket that was given up:", err)
	}
	if k, err = Keep(); err != nil || len(k.ports) != 0 {
		t.Error("after Release:", k, err)
	}
	if err := k.Exec(filepath.Join(t.TempDir(), "absent"), []string{"absent"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a successor that is not there:", err)
	}
	if k, err = Keep(); err != nil {
		t.Fatal("after a hand-over that failed:", err)
	}
	k.Release()
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	if l, err := Listen(new(net.ListenConfig), "tcp", used.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Error("a port in use:", l, err)
	}
	if c, err := ListenPacket("192.0.2.1:9"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Error("an address of others:", c, err)
	}
}

// TestNothingIsRemembered: a program that never takes over ports holds none here.
func TestNothingIsRemembered(t *testing.T) {
	process = set{}
	l, err := Listen(new(net.ListenConfig), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if len(process.open) > 0 {
		t.Error("a port is remembered")
	}
}

// TestSameAddress says which addresses are those of a port.
func TestSameAddress(t *testing.T) {
	tcp := func(s string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", s)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct {
		at            net.Addr
		network, addr string
		exact, wild   bool
	}{
		{tcp("127.0.0.1:9"), "tcp", "127.0.0.1:9", true, false},
		{tcp("127.0.0.1:9"), "tcp", "127.0.0.1:8", false, false},
		{tcp("127.0.0.1:9"), "tcp", "127.0.0.1:0", false, false},
		{tcp("127.0.0.1:9"), "tcp", "127.0.0.2:9", false, false},
		{tcp("127.0.0.1:9"), "udp", "127.0.0.1:9", false, false},
		{tcp("[::1]:9"), "tcp", "[::1]:9", true, false},
		{tcp("[::]:9"), "tcp", "0.0.0.0:9", false, true},
		{tcp("0.0.0.0:9"), "tcp", "[::]:9", false, true},
		{tcp("0.0.0.0:9"), "tcp6", "[::]:9", false, false},
		{tcp("[::]:9"), "tcp4", "0.0.0.0:9", false, false},
		{tcp("[::]:9"), "tcp6", "[::]:9", true, false},
		{tcp("[::]:9"), "tcp", "127.0.0.1:9", false, false},
		{&net.UnixAddr{Name: "@a", Net: "unix"}, "unix", "@a", false, false},
		{&net.UnixAddr{Name: "/absent/a", Net: "unix"}, "unix", "/absent/../absent/a", true, true},
		{&net.UnixAddr{Name: "/absent/a", Net: "unix"}, "unix", "/absent/b", false, false},
		{&net.UnixAddr{Name: "/absent/a", Net: "unixgram"}, "unix", "/absent/a", false, false},
		{&net.IPAddr{}, "tcp", "127.0.0.1:9", false, false},
	} {
		if exact, wild := isAt(c.at, c.network, c.addr, false), isAt(c.at, c.network, c.addr, true); exact != c.exact || wild != c.wild {
			t.Errorf("%s for %s %s: %v, %v", c.at, c.network, c.addr, exact, wild)
		}
	}
}
