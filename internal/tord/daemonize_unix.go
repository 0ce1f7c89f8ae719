//go:build unix

package tord

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

const canDaemonize = true

// daemonMark is in the environment of the process in the background, until it has seen it. It has two pipes then.
const daemonMark = "CHIVE_TOR_IN_BACKGROUND"

const (
	readyFD = 3 // where it says that it runs
	givenFD = 4 // where it gets what is given to it
)

// parent returns who has started this process to run in the background; nil: nobody has.
func (p *Program) parent(s *source) (*parent, error) {
	if p.Self == nil || os.Getenv(daemonMark) == "" {
		return nil, nil
	}
	var files [2]*os.File
	for i, fd := range []int{readyFD, givenFD} {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return nil, fault.New(fault.Config, "%s is in the environment, and file descriptor %d is no pipe", daemonMark, fd)
		}
		syscall.CloseOnExec(fd) // transports are started later
		files[i] = os.NewFile(uintptr(fd), "pipe")
	}
	defer files[1].Close()
	if err := os.Unsetenv(daemonMark); err != nil {
		return nil, err
	}
	var g given
	if err := json.NewDecoder(files[1]).Decode(&g); err != nil {
		return nil, fault.New(fault.Local, "what the process that started this one read: %w", err)
	}
	s.take(g)
	return &parent{waits: files[0]}, nil
}

// background starts this program again, in a session of its own, and waits until that has opened its ports or has failed, of which
// it writes to the same standard output.
func (p *Program) background(l *logs, s *source) int {
	out, ok := p.Stdout.(*os.File)
	if p.Self == nil || !ok {
		return l.fail(fault.New(fault.Config, "%s 1: this process does not know how it was started", asDaemon))
	}
	l.out.flush(answerTime) // the lines of both are in order
	child, ready, err := p.startAgain(out, s.give())
	if err != nil {
		return l.fail(fault.New(fault.Local, "%s 1: the program could not be started again: %w", asDaemon, err))
	}
	runs := make(chan bool, 1)
	go panics.Contain(nil, nil, func() {
		defer ready.Close()
		b, _ := io.ReadAll(ready) // an error is as an end without a word
		runs <- len(b) > 0
	})()
	told := false
	for {
		select {
		case sig := <-p.Signals:
			if name := signalNames()[sig]; name == "HALT" || name == "SHUTDOWN" {
				told = true
				child.Signal(syscall.SIGTERM) // it may have ended by itself
			}
		case running := <-runs:
			if running {
				child.Release()
			} else {
				child.Wait() // it has said why
			}
			if told || !running {
				return exitFailed
			}
			return exitOK
		}
	}
}

// ownPath returns the file of this program by the name by which it was started, if it can be told: ps and pidof show that.
func ownPath(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	named, err := exec.LookPath(name)
	if err != nil {
		return self, nil
	}
	a, err := os.Stat(self)
	if err != nil {
		return "", err
	}
	if b, err := os.Stat(named); err != nil || !os.SameFile(a, b) {
		return self, nil
	}
	return named, nil
}

// startAgain starts this program again, and gives it what cannot be read a second time. What comes from ready says whether it runs.
func (p *Program) startAgain(out *os.File, g given) (child *os.Process, ready *os.File, err error) {
	path, err := ownPath(p.Self[0])
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(g)
	if err != nil {
		return nil, nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	ready, tells, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer tells.Close()
	takes, gives, err := os.Pipe()
	if err != nil {
		ready.Close()
		return nil, nil, err
	}
	defer gives.Close()
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, daemonMark+"=") })
	child, err = os.StartProcess(path, p.Self, &os.ProcAttr{
		Env: append(env, daemonMark+"=1"), Files: []*os.File{null, out, os.Stderr, tells, takes}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	takes.Close()
	if err != nil {
		ready.Close()
		return nil, nil, err
	}
	gives.Write(text) // if the child has ended, ready says so
	return child, ready, nil
}

// release says that the program runs: from now on it has nothing of who started it, no standard output, and is in a folder of its own.
func (p *parent) release(dir string, out *lines) error {
	if p == nil {
		return nil
	}
	if err := os.Chdir(dir); err != nil { // the folder of who started it may be on a disk that shall be taken out
		return err
	}
	out.flush(answerTime)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if err := unix.Dup2(int(null.Fd()), fd); err != nil {
			return err
		}
	}
	_, err = p.waits.Write([]byte{'.'})
	p.close()
	if err != nil {
		return nil // who started it has ended, and C tor goes on then, too
	}
	return nil
}
