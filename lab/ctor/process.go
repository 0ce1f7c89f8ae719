package ctor

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// runner starts processes from one operating-system thread that lives as long
// as it does: Linux sends the parent-death signal when the thread that forked
// ends, not the process.
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

// start runs cmd, to die with this process.
func (r *runner) start(cmd *exec.Cmd) (*process, error) {
	tie(cmd)
	errc := make(chan error, 1)
	r.work <- func() { errc <- cmd.Start() }
	if err := <-errc; err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		cmd.Wait() // the state says all that the error does
		close(p.done)
	}()
	return p, nil
}

// process is one started process; done is closed when it has been waited for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// state returns how the process ended; only after done.
func (p *process) state() *os.ProcessState { return p.cmd.ProcessState }

// end sends the signals and waits; what does not end within grace is killed.
func (p *process) end(grace time.Duration, signals ...syscall.Signal) error {
	for _, s := range signals {
		p.cmd.Process.Signal(s) // fails only if the process has ended, which is the aim
	}
	timer := time.NewTimer(grace)
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
	case <-time.After(5 * time.Second):
		return fault.New(fault.Local, "process %d survives SIGKILL", p.cmd.Process.Pid)
	}
}
