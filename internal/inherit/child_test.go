//go:build unix

package inherit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/fault"
)

// childVar makes the test's program take over ports, as a job says, and tell what came of it.
const childVar = "INHERIT_TEST_JOB"

// job is what a child does, and then what its successor does.
type job struct {
	Ports []port
	Env   []string // set with its own number for $$
	Next  *job     // of the successor, which keeps the ports
	Shell string   // what a shell does in the successor's place
}

// outcome is what a child tells.
type outcome struct {
	Take, Left string // the errors
	Config     bool   // they are of kind fault.Config
	At         []string
	Before     []bool   // the port was open before the child began
	Vars       []string // that programs of the child would see
	Leaks      []int    // descriptors that they would have
	Times      int
	Log        string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childVar); text != "" {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			panic(err)
		}
		j.run()
		return
	}
	os.Exit(m.Run())
}

func (j *job) run() {
	for _, e := range j.Env {
		name, value, _ := strings.Cut(e, "=")
		os.Setenv(name, strings.ReplaceAll(value, "$$", strconv.Itoa(os.Getpid())))
	}
	var out outcome
	note := func(to *string, err error) {
		if err != nil {
			*to, out.Config = err.Error(), fault.Is(err, fault.Config)
		}
	}
	note(&out.Take, Take())
	var local []net.Listener
	for _, p := range j.Ports {
		out.Before = append(out.Before, slices.ContainsFunc(process.waiting, func(h *handed) bool {
			return h.port == p || isAt(h.at, p.Network, p.Addr, true) || isAt(h.at, p.Network, p.Addr, false)
		}))
		var at net.Addr
		switch p.Network {
		case "udp":
			c, err := ListenPacket(p.Addr)
			if err != nil {
				panic(err)
			}
			at = c.LocalAddr()
		case "unix":
			l, _ := Unix(p.Addr)
			if l == nil {
				u, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.Addr, Net: "unix"})
				if err != nil {
					panic(err)
				}
				u.SetUnlinkOnClose(false)
				if l, err = OwnUnix(p.Addr, u); err != nil {
					panic(err)
				}
			}
			go serve(l)
			at, local = l.Addr(), append(local, l)
		default:
			l, err := Listen(new(net.ListenConfig), p.Network, p.Addr)
			if err != nil {
				panic(err)
			}
			go serve(l)
			at = l.Addr()
		}
		out.At = append(out.At, at.String())
	}
	var log bytes.Buffer
	note(&out.Left, Left(slog.New(slog.NewTextHandler(&log, nil))))
	out.Log, out.Times = log.String(), Times()
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "LISTEN_") || strings.HasPrefix(e, ownVar) {
			out.Vars = append(out.Vars, e)
		}
	}
	for fd := firstFD; fd < 40; fd++ {
		kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		accepts, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if err != nil || accepts == 0 && kind != unix.SOCK_DGRAM {
			continue // the test's own
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			out.Leaks = append(out.Leaks, fd)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
	var b [1]byte
	os.Stdin.Read(b[:]) // until the test has looked
	if j.Next == nil && j.Shell == "" {
		for _, l := range local {
			l.Close()
		}
		return
	}
	k, err := Keep()
	if err != nil {
		panic(err)
	}
	for _, o := range process.open {
		if u, ok := o.conn.(*net.UnixListener); ok {
			u.Close()
		} else {
			o.conn.(socket).Close()
		}
	}
	if j.Shell != "" {
		panic(k.Exec("/bin/sh", []string{"sh", "-c", j.Shell}))
	}
	next, err := json.Marshal(j.Next)
	if err != nil {
		panic(err)
	}
	os.Setenv(childVar, string(next))
	panic(k.Exec(os.Args[0], os.Args))
}

// serve answers each connection with its process's number.
func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(c, os.Getpid())
		c.Close()
	}
}

// child is a process that runs a job.
type child struct {
	*exec.Cmd
	t    *testing.T
	told *json.Decoder
	end  func() error // the end of the job
	next func()       // lets it go on to the next
}

// begin runs a job with the files as descriptors from 3 on; nil is a descriptor that is not open.
func begin(t *testing.T, j job, files ...*os.File) *child {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.ExtraFiles, cmd.Stderr = files, t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() error { ended = true; in.Close(); return cmd.Wait() }
	t.Cleanup(func() {
		if !ended {
			cmd.Process.Kill()
			end()
		}
	})
	return &child{cmd, t, json.NewDecoder(out), end, func() {
		if _, err := in.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
	}}
}

func (c *child) hear() (out outcome) {
	c.t.Helper()
	if err := c.told.Decode(&out); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// file returns a descriptor of a socket, and closes the socket itself.
func file(t *testing.T, s interface {
	File() (*os.File, error)
	Close() error
}) *os.File {
	t.Helper()
	if u, ok := s.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	f, err := s.File()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func tcp(t *testing.T, network, addr string) (*os.File, string) {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, l.(*net.TCPListener)), l.Addr().String()
}

func unixSocket(t *testing.T) (*os.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return file(t, l), path
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// answers reports which process serves an address.
func answers(t *testing.T, network, addr string) string {
	t.Helper()
	c, err := net.DialTimeout(network, addr, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	var b bytes.Buffer
	if _, err := b.ReadFrom(c); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func activated(n int, names string) []string {
	return []string{"LISTEN_PID=$$", "LISTEN_FDS=" + strconv.Itoa(n), "LISTEN_FDNAMES=" + names, "LISTEN_PIDFDID=1"}
}
