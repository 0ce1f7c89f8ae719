package namespace

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/panics"
)

// socketFD is init's end of the socket to the caller.
const socketFD = 3

// Inside runs init, and ends the process, if this process is that. Otherwise it does nothing.
func Inside() {
	if len(os.Args) > 2 && os.Args[0] == arg0 && os.Getpid() == 1 {
		os.Exit(runInit(os.Args[1], os.Args[2:]))
	}
}

// inner is init.
type inner struct {
	conn    *net.UnixConn
	orders  chan order
	signals chan os.Signal
	pid     int                     // of the program
	own     map[os.Signal]time.Time // when init itself received a signal
	exited  chan syscall.WaitStatus // of the program
}

// runInit returns the exit code of init, which only matters if it cannot report.
func runInit(path string, args []string) int {
	runtime.LockOSThread() // the program inherits what this thread gives up
	conn, err := unixConn(socketFD)
	if err != nil {
		return 1
	}
	in := &inner{conn: conn, orders: make(chan order), signals: make(chan os.Signal, 16), own: map[os.Signal]time.Time{}, exited: make(chan syscall.WaitStatus, 1)}
	signal.Notify(in.signals, Signals()...) // so that they reach the first process of a PID namespace at all
	if err := in.prepare(); err != nil {
		in.report(report{Error: err.Error(), Denied: errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)})
		return 1
	}
	go panics.Contain(nil, func(error) { os.Exit(1) }, in.read)()
	if o, ok := <-in.orders; !ok || !o.Start {
		return 1
	}
	if code, err := in.start(path, args); err != nil {
		in.report(report{Exit: &code, Error: err.Error()})
		return 1
	}
	code := in.serve()
	in.report(report{Exit: &code})
	return 0
}

func (in *inner) report(r report) { _ = send(in.conn, r, nil) } // the caller may have gone

// prepare makes everything that the program needs, and sends the device to the caller.
func (in *inner) prepare() error {
	var s setup
	if _, err := receive(in.conn, &s); err != nil {
		return err
	}
	if err := mounts(s.Nameserver); err != nil {
		return err
	}
	tun, err := makeTUN()
	if err != nil {
		return err
	}
	defer unix.Close(tun)
	if err := configure(s.Addrs, s.MTU); err != nil {
		return err
	}
	if s.Congestion != "" { // this /proc shows the settings of the namespace
		if err := os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte(s.Congestion), 0o644); err != nil {
			return fmt.Errorf("TCP's congestion control %s: %w", s.Congestion, err)
		}
	}
	return send(in.conn, report{Ready: true}, unix.UnixRights(tun))
}

// read passes on the caller's orders. When the caller has gone, all ends.
func (in *inner) read() {
	for {
		var o order
		if _, err := receive(in.conn, &o); err != nil {
			os.Exit(1)
		}
		in.orders <- o
	}
}

// start starts the program. The code is for an error.
func (in *inner) start(path string, args []string) (code int, err error) {
	if err := giveUp(); err != nil {
		return 125, err
	}
	// Nothing that this process inherited reaches the program, but for the standard ones.
	if err := unix.CloseRange(socketFD, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 125, fmt.Errorf("close descriptors: %w", err)
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	switch {
	case errors.Is(err, syscall.ENOENT):
		return 127, fmt.Errorf("%s: %w", path, err)
	case err != nil:
		return 126, fmt.Errorf("%s: %w", path, err)
	}
	in.pid = pid
	go panics.Contain(nil, func(error) { os.Exit(1) }, in.reap)()
	return 0, nil
}

// reap waits for the program, and for the processes that lost their parents.
func (in *inner) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid == in.pid {
			in.exited <- ws
			return
		}
	}
}

const (
	// A signal that the terminal or the shell sends to the whole job reaches the program, the caller
	// and init at about the same time. What the caller passes on is then one too many.
	same  = 300 * time.Millisecond
	later = 50 * time.Millisecond
)

// serve passes on signals until the program has ended, and returns its exit code.
func (in *inner) serve() int {
	late := make(chan syscall.Signal, 16)
	for {
		select {
		case ws := <-in.exited:
			if ws.Signaled() {
				return 128 + int(ws.Signal())
			}
			return ws.ExitStatus()
		case s := <-in.signals:
			in.own[s] = time.Now()
		case o := <-in.orders:
			if o.Signal != 0 {
				time.AfterFunc(later, panics.Contain(nil, nil, func() { late <- o.Signal }))
			}
		case s := <-late:
			if at, ok := in.own[s]; !ok || time.Since(at) > same {
				_ = syscall.Kill(in.pid, s) // it may have ended
			}
		}
	}
}
