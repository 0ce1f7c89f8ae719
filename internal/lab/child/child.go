// Package child runs programs that report on standard output when they are ready, like chive's own subcommands:
// lines of a word and a value, such as "socks 127.0.0.1:9050", and then a line "ready". A child dies with the
// process that started it, however that process ends (on Linux; on other systems, only if it ends normally).
package child

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Grace is how long Stop waits before it kills.
const Grace = 15 * time.Second

// maxSaid bounds what a child says on standard output before it is ready and that is kept, in bytes; the rest is
// ignored.
const maxSaid = 1 << 20

// maxWords bounds the output on standard error that is kept for the text of an error, in bytes.
const maxWords = 4 << 10

// Process is a running child.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been waited for
	last *tail
}

// Start runs a program and returns when it reports "ready", with the lines before that as a map; values of one
// word are joined by line ends. log, if not nil, receives its standard error. A child that ends first, or is not
// ready when ctx ends, is an error with its last words.
func Start(ctx context.Context, log io.Writer, program string, args ...string) (*Process, map[string]string, error) {
	return Run(ctx, log, exec.Command(program, args...), func(line string) bool { return line == "ready" })
}

// Run is Start for programs that report it in another way: isReady recognises the line. The command's standard
// output and error must not be set.
func Run(ctx context.Context, log io.Writer, cmd *exec.Cmd, isReady func(line string) bool) (*Process, map[string]string, error) {
	p := &Process{cmd: cmd, done: make(chan struct{}), last: &tail{also: log}}
	name := strings.Join(cmd.Args, " ")
	tie(p.cmd)
	p.cmd.Stderr = p.last
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, fault.Wrap(fault.Local, err)
	}
	read := make(chan struct{})
	if err := p.start(read); err != nil {
		return nil, nil, fault.New(fault.Local, "start %s: %w", cmd.Path, err)
	}
	said := map[string]string{}
	ready := make(chan struct{})
	go func() {
		defer close(read)
		s := bufio.NewScanner(out)
		kept := 0
		for s.Scan() {
			if isReady(s.Text()) {
				close(ready)
				break
			}
			if kept += len(s.Bytes()); kept > maxSaid {
				continue
			}
			k, v, _ := strings.Cut(s.Text(), " ")
			if before, again := said[k]; again {
				v = before + "\n" + v
			}
			said[k] = v
		}
		io.Copy(io.Discard, out) // a child whose output is not read would stop
	}()
	select {
	case <-ready:
		return p, said, nil
	case <-p.done:
		return nil, nil, fault.New(fault.Local, "%s ended (%v): %s", name, p.cmd.ProcessState, p.last)
	case <-ctx.Done():
		p.Kill()
		return nil, nil, fault.New(fault.Timeout, "%s is not ready: %w: %s", name, context.Cause(ctx), p.last)
	}
}

// start starts and waits for the child on one thread that lives as long as the child: Linux sends the
// parent-death signal when the thread that forked ends. Wait closes the pipe, so it comes after the last read.
func (p *Process) start(read <-chan struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		<-read
		p.cmd.Wait() // the state has all information of the error
		close(p.done)
	}()
	return <-started
}

// PID returns the process number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// LastWords returns the end of what the process printed on standard error.
func (p *Process) LastWords() string { return p.last.String() }

// Stop asks the process to end, with two signals (the second makes a relay that is draining end at once), and
// waits; after Grace it kills.
func (p *Process) Stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended, which is what we want
	p.cmd.Process.Signal(syscall.SIGTERM)
	return p.await()
}

// Drain asks the process to end once, and waits; after Grace it kills.
func (p *Process) Drain() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	return p.await()
}

// Kill ends the process at once.
func (p *Process) Kill() error {
	p.cmd.Process.Kill()
	return p.await()
}

func (p *Process) await() error {
	t := time.NewTimer(Grace)
	defer t.Stop()
	select {
	case <-p.done:
		return p.last.panics()
	case <-t.C:
	}
	p.cmd.Process.Kill()
	select {
	case <-p.done:
		return nil
	case <-time.After(Grace):
		return fault.New(fault.Local, "process %d survives SIGKILL", p.PID())
	}
}

// Self returns the path of this program, to start it again as a child.
func Self() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fault.New(fault.Local, "which program is this: %w", err)
	}
	return exe, nil
}

// Chive returns the path of the chive that is beside this program, which is what users
// run; if there is none, of this program, which has chive's commands, too.
func Chive() (string, error) {
	self, err := Self()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), "chive"+filepath.Ext(self))
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return beside, nil
	}
	return self, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	also io.Writer

	mu       sync.Mutex // guards what follows
	buf      []byte
	panicked string // the first line that tells of a contained panic
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if at := bytes.Index(t.buf, []byte(panics.Logged)); at >= 0 && t.panicked == "" {
		t.panicked = string(t.buf[at:])
	}
	if over := len(t.buf) - maxWords; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	if t.also != nil {
		return t.also.Write(b)
	}
	return len(b), nil
}

// panics returns an error when the child has contained a panic: a test that ran it must fail.
func (t *tail) panics() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.panicked == "" {
		return nil
	}
	return fault.New(fault.Local, "a child's mistake: %s", t.panicked)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
