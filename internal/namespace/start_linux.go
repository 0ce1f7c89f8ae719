package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Config says what runs in the namespaces, and what is there.
type Config struct {
	Path                  string   // of the program
	Args                  []string // with its name
	Env                   []string
	Stdin, Stdout, Stderr *os.File

	Addrs      []netip.Addr // of the device; without an IPv6 one there is no IPv6
	Nameserver netip.Addr
	MTU        int
	Congestion string // the default congestion control of TCP; empty: the machine's
}

// arg0 is the first argument by which the program knows that it runs inside.
const arg0 = "chive-exec-init"

// setup is what init is told first.
type setup struct {
	Addrs      []netip.Addr
	Nameserver netip.Addr
	MTU        int
	Congestion string
}

// order is what init is told later.
type order struct {
	Start  bool
	Signal syscall.Signal `json:",omitempty"`
}

// report is what init tells. A report with Ready comes with the device.
type report struct {
	Ready  bool
	Error  string `json:",omitempty"`
	Denied bool   `json:",omitempty"` // the kernel does not allow it to this user
	Exit   *int   `json:",omitempty"` // the program's exit code
}

// maxReport bounds a message, in bytes.
const maxReport = 64 << 10

// ErrDenied is in the errors of New where the kernel or the machine allows no such namespaces.
var ErrDenied = errors.New("this machine does not allow it")

// Program is a program that can start in its namespaces.
type Program struct {
	TUN *os.File // the caller's, who closes it

	cmd  *exec.Cmd
	conn *net.UnixConn
}

// New makes the namespaces. Run starts the program in them; Kill ends them.
func New(cfg Config) (*Program, error) {
	own, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p := &Program{conn: own}
	if err := p.launch(cfg, theirs); err != nil {
		own.Close()
		return nil, err
	}
	theirs.Close() // or the end of init would not end the socket
	if err := p.prepare(cfg); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// launch starts init. Root has all users in there, anyone else only itself.
func (p *Program) launch(cfg Config, socket *os.File) error {
	try := func(users, groups []syscall.SysProcIDMap, setgroups bool) error {
		p.cmd = &exec.Cmd{
			Path: "/proc/self/exe", Args: append([]string{arg0, cfg.Path}, cfg.Args...), Env: cfg.Env,
			Stdin: cfg.Stdin, Stdout: cfg.Stdout, Stderr: cfg.Stderr, ExtraFiles: []*os.File{socket},
			SysProcAttr: &syscall.SysProcAttr{
				Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
				// Init is no root, so it keeps only these when it starts. It gives them up for the program.
				AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP},
				UidMappings: users, GidMappings: groups, GidMappingsEnableSetgroups: setgroups,
			},
		}
		return p.cmd.Start()
	}
	err := errors.New("not root")
	if os.Geteuid() == 0 {
		var users, groups []syscall.SysProcIDMap
		if users, err = allIDs("/proc/self/uid_map"); err == nil {
			if groups, err = allIDs("/proc/self/gid_map"); err == nil {
				err = try(users, groups, true)
			}
		}
	}
	if err != nil {
		uid, gid := os.Geteuid(), os.Getegid()
		err = try([]syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}, []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}, false)
	}
	if err != nil {
		return fault.New(fault.Local, "make namespaces: %w: %w", err, ErrDenied)
	}
	return nil
}

// allIDs returns the map that has all users, or groups, of this process' own namespace.
func allIDs(path string) ([]syscall.SysProcIDMap, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fault.New(fault.Local, "%s: not a map of users", path)
		}
		first, err1 := strconv.ParseUint(f[0], 10, 32)
		size, err2 := strconv.ParseUint(f[2], 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		out = append(out, syscall.SysProcIDMap{ContainerID: int(first), HostID: int(first), Size: int(size)})
	}
	return out, nil
}

// prepareTime bounds what init does before it has the device.
const prepareTime = 30 * time.Second

// prepare has init make the device.
func (p *Program) prepare(cfg Config) error {
	p.conn.SetDeadline(time.Now().Add(prepareTime))
	defer p.conn.SetDeadline(time.Time{})
	if err := send(p.conn, setup{cfg.Addrs, cfg.Nameserver, cfg.MTU, cfg.Congestion}, nil); err != nil {
		return err
	}
	var r report
	tun, err := receive(p.conn, &r)
	switch {
	case err != nil:
		return fault.New(fault.Local, "the first process in the namespaces has ended: %w", err)
	case r.Denied:
		return fault.New(fault.Local, "%s: %w", r.Error, ErrDenied)
	case r.Error != "":
		return fault.New(fault.Local, "%s", r.Error)
	case !r.Ready || tun < 0:
		return fault.New(fault.Local, "the first process in the namespaces sent no device")
	}
	if err := unix.SetNonblock(tun, true); err != nil {
		unix.Close(tun)
		return fault.New(fault.Local, "the device: %w", err)
	}
	p.TUN = os.NewFile(uintptr(tun), "tun")
	return nil
}

// Run starts the program and waits for its end. It passes on the signals from the channel that only
// this process received. When ctx ends, it kills the program. The code is the program's, or
// 128 and the number of the signal that ended it, or 126 or 127 if it cannot be started, as for shells.
func (p *Program) Run(ctx context.Context, signals <-chan os.Signal) (code int, err error) {
	defer p.Kill()
	if err := send(p.conn, order{Start: true}, nil); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	defer close(done)
	go panics.Contain(nil, nil, func() {
		for {
			select {
			case s := <-signals:
				if s, ok := s.(syscall.Signal); ok {
					_ = send(p.conn, order{Signal: s}, nil) // init has ended: Run ends too
				}
			case <-ctx.Done():
				p.conn.Close() // init ends
				return
			case <-done:
				return
			}
		}
	})()
	var r report
	_, err = receive(p.conn, &r)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil || r.Exit == nil:
		return 0, fault.New(fault.Local, "the first process in the namespaces was ended from outside")
	case r.Error != "":
		return *r.Exit, fault.New(fault.Local, "%s", r.Error)
	}
	return *r.Exit, nil
}

// Kill ends all processes in the namespaces, and waits for it.
func (p *Program) Kill() {
	p.conn.Close()
	_ = p.cmd.Process.Kill() // of which every process in there dies; it may have ended
	_ = p.cmd.Wait()
}

// Signals are those that Run can pass on: a program that gets them usually ends or does
// something. Those that stop a job are not among them: the terminal sends these to all of the job.
func Signals() []os.Signal {
	var out []os.Signal
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
		if !signal.Ignored(s) { // as nohup does
			out = append(out, s)
		}
	}
	return out
}

// socketPair returns a connection that keeps messages apart, and a descriptor of its other end.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fault.New(fault.Local, "make a socket: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "init")
	own, err := unixConn(fds[0])
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return own, theirs, nil
}

// unixConn returns the connection of a descriptor, which it closes.
func unixConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fault.New(fault.Local, "make a socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fault.New(fault.Local, "make a socket: it is none of a unix socket")
	}
	return u, nil
}

// send sends a message, with a descriptor if rights has one.
func send(c *net.UnixConn, msg any, rights []byte) error {
	b, err := json.Marshal(msg)
	if err == nil {
		_, _, err = c.WriteMsgUnix(b, rights, nil)
	}
	if err != nil {
		return fault.New(fault.Local, "tell the process in the namespaces: %w", err)
	}
	return nil
}

// receive reads a message and returns the descriptor that came with it, or -1.
func receive(c *net.UnixConn, msg any) (fd int, err error) {
	b, oob := make([]byte, maxReport), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
	if errors.Is(err, syscall.ECONNRESET) {
		// The other end has gone without reading all. The kernel says so first; what it sent before is there.
		n, oobn, _, _, err = c.ReadMsgUnix(b, oob)
	}
	if err != nil {
		return -1, err
	}
	fd = -1
	if messages, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(messages) == 1 {
		if fds, err := unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
			fd = fds[0]
		}
	}
	if err := json.Unmarshal(b[:n], msg); err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return -1, err
	}
	return fd, nil
}
