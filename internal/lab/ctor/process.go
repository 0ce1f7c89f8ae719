package ctor

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// runner starts processes from one operating-system thread that lives as long as the
// runner: Linux sends the parent-death signal when the thread that forked ends, not
// the process.
type runner struct {
	work chan func()
	done chan struct{}
}

func newRunner() *runner {
	r := &runner{work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range r.work {
			f()
		}
	}()
	return r
}

// close ends the thread, and with it every process that it started and that
// still runs. It returns when the goroutine has ended.
func (r *runner) close() {
	close(r.work)
	<-r.done
}

// start runs cmd. The new process dies with this process.
func (r *runner) start(cmd *exec.Cmd) (*Process, error) {
	tie(cmd)
	errc := make(chan error, 1)
	r.work <- func() { errc <- cmd.Start() }
	if err := <-errc; err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		cmd.Wait() // the state has all information of the error
		close(p.done)
	}()
	return p, nil
}

// grace is how long a process has to end by itself. It may have to save its state,
// on a loaded machine.
const grace = 30 * time.Second

// Process is a program that runs together with a network and ends with it.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed after the process has ended
}

// PID returns the process number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop sends SIGTERM and waits; after a while (grace) it kills.
func (p *Process) Stop() error {
	if !p.running() {
		return nil
	}
	return p.end(grace, syscall.SIGTERM)
}

// Run starts another program, such as a client, which ends with the network at the
// latest: at Close, or when this process dies. Run also works after the network's
// nodes were stopped, but not after Close.
func (nw *Network) Run(cmd *exec.Cmd) (*Process, error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if nw.closed {
		return nil, fault.New(fault.Closed, "start %s: the network is closed", cmd.Path)
	}
	p, err := nw.run.start(cmd)
	if err != nil {
		return nil, fault.New(fault.Local, "start %s: %w", cmd.Path, err)
	}
	nw.others = append(nw.others, p)
	return p, nil
}

// FreePort returns a TCP port of 127.0.0.1 that nothing uses, and that no other
// network will use while this one is open.
func (nw *Network) FreePort() (uint16, error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return nw.leases.Take(loopback4)
}

func (p *Process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// state returns how the process ended; only after done.
func (p *Process) state() *os.ProcessState { return p.cmd.ProcessState }

// end sends the signals and waits; if the process does not end within that time, it
// is killed.
func (p *Process) end(within time.Duration, signals ...syscall.Signal) error {
	for _, s := range signals {
		p.cmd.Process.Signal(s) // fails only if the process has ended, which is what we want
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	p.cmd.Process.Kill()
	select {
	case <-p.done:
		return nil
	case <-time.After(30 * time.Second):
		return fault.New(fault.Local, "process %d survives SIGKILL", p.cmd.Process.Pid)
	}
}
