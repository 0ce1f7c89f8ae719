package linktun

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/namespace"
	"github.com/chivenet/chive/internal/panics"
)

// ErrDenied is in the error of Attach where the kernel allows no such namespaces.
var ErrDenied = namespace.ErrDenied

// nowhere stands in the resolv.conf of the namespaces: the emulated network has no names (TEST-NET-1).
var nowhere = netip.AddrFrom4([4]byte{192, 0, 2, 53})

// Command is the program of a host.
type Command struct {
	Args   []string // the program and its arguments
	Env    []string // nil: this process's
	Input  *os.File // standard input; nil: nothing
	Output *os.File // standard output and error; nil: nowhere
	// Congestion is the algorithm of TCP's that its connections have if it chooses none; empty: the machine's.
	Congestion string
}

// Host is a host with one program.
type Host struct {
	program *namespace.Program
	port    *links.Port
	null    *os.File
	stop    [2]int // a pipe that ends send
	fd      int    // of the device, a second one
	loop    sync.WaitGroup
	once    sync.Once
	ctx     context.Context // until Close
	cancel  context.CancelFunc
	running sync.Mutex // guards program, which one goroutine at a time may end
	signals chan os.Signal
}

// Attach makes a host with an address. Run starts its program. Close ends it. The program that calls it must
// call namespace.Inside first of all, as those of package cli do: a host begins as this program once more.
func Attach(n *links.Net, addr netip.Addr, access links.Access, cmd Command) (*Host, error) {
	if len(cmd.Args) == 0 {
		return nil, fault.New(fault.Config, "a host without a program")
	}
	path, err := exec.LookPath(cmd.Args[0])
	if err != nil {
		return nil, fault.New(fault.Config, "the program of a host: %w", err)
	}
	h := &Host{signals: make(chan os.Signal, 4)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if h.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	cfg := namespace.Config{Path: path, Args: cmd.Args, Env: cmd.Env, Stdin: h.null, Stdout: cmd.Output, Stderr: cmd.Output,
		Addrs: []netip.Addr{addr}, Nameserver: nowhere, MTU: access.MTU(), Congestion: cmd.Congestion}
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	if cmd.Output == nil {
		cfg.Stdout, cfg.Stderr = h.null, h.null
	}
	if cmd.Input != nil {
		cfg.Stdin = cmd.Input
	}
	if h.program, err = namespace.New(cfg); err != nil {
		h.null.Close()
		return nil, err
	}
	tun := h.program.TUN
	if err := h.second(); err != nil {
		h.program.Kill()
		tun.Close()
		h.null.Close()
		return nil, err
	}
	if h.port, err = n.Attach(addr, access, func(b []byte) {
		_, _ = tun.Write(b) // the device has gone: the host ends
	}); err != nil {
		h.program.Kill()
		tun.Close()
		h.closeFDs()
		h.null.Close()
		return nil, err
	}
	h.loop.Go(panics.Contain(nil, nil, func() { h.send(h.fd, h.stop[0], access.MTU()) }))
	return h, nil
}

// send hands the programs' packets to the link, until stop is closed. It reads by itself, and not by
// the runtime's poller, so that no ordinary goroutine is in the way of a packet.
func (h *Host) send(fd, stop, mtu int) {
	links.Hurry()
	b := make([]byte, mtu)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EAGAIN:
			if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR || fds[1].Revents != 0 {
				return
			}
		case err == unix.EINTR:
		case err != nil: // the namespace has gone
			return
		default:
			h.port.Send(append([]byte(nil), b[:n]...))
		}
	}
}

// second makes the descriptors of send.
func (h *Host) second() error {
	raw, err := h.program.TUN.SyscallConn()
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	var err2 error
	if err := raw.Control(func(fd uintptr) { h.fd, err2 = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || err2 != nil {
		return fault.Wrap(fault.Local, errors.Join(err, err2))
	}
	if err := unix.Pipe2(h.stop[:], unix.O_CLOEXEC); err != nil {
		unix.Close(h.fd)
		return fault.Wrap(fault.Local, err)
	}
	return nil
}

func (h *Host) closeFDs() {
	unix.Close(h.fd)
	for _, fd := range h.stop {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Port is where the host is attached.
func (h *Host) Port() *links.Port { return h.port }

// Run runs the program until its end, or that of ctx, and returns its exit code. It may be called once.
func (h *Host) Run(ctx context.Context) (int, error) {
	h.running.Lock()
	defer h.running.Unlock()
	if h.ctx.Err() != nil {
		return 0, fault.New(fault.Closed, "the host is closed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	return h.program.Run(ctx, h.signals)
}

// Signal sends a signal to the program that Run runs, which are those of namespace.Signals. It does not wait for it:
// a program that has ended, or has not begun to take the last ones, gets none.
func (h *Host) Signal(s os.Signal) {
	select {
	case h.signals <- s:
	default:
	}
}

// Close ends the program and all that it has started, and removes the device and the namespaces. It
// may be called again, and while Run waits.
func (h *Host) Close() {
	h.once.Do(func() {
		h.cancel()
		h.running.Lock() // Run has ended, and none begins
		defer h.running.Unlock()
		h.program.Kill()
		unix.Close(h.stop[1])
		h.stop[1] = -1
		h.loop.Wait()
		h.port.Close()
		h.program.TUN.Close()
		h.closeFDs()
		h.null.Close()
	})
}
