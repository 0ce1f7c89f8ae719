package deploy

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/chivenet/chive/internal/fault"
)

// Names of a node's files on a board, beside those of roles.go.
const (
	keptName    = "kept"    // its lock is held while the node's program runs
	endedName   = "ended"   // says how the program ended; empty: well
	managerName = "manager" // which systemd keeps it
)

// startTime is how long a program may take to be kept.
const startTime = 30 * time.Second

// CheckBoard tells whether a node can listen where it must.
func CheckBoard(listens []netip.AddrPort) error {
	for _, a := range listens {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return fault.New(fault.Local, "port %d is taken at %v; \"chivelab deploy INVENTORY --to ssh --remove\" ends what earlier runs have left", a.Port(), a.Addr())
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			return fault.New(fault.Config, "the board does not have the address %v", a.Addr())
		case err != nil:
			return fault.Wrap(fault.Local, err)
		}
		l.Close()
	}
	return nil
}

// Start has a program run on after this one, with its output in a file of dir. Where systemd runs, it is a unit: of the
// system's for root, else of the user's. Elsewhere it is a process in a session of its own. In both cases Keep starts it.
// self is this program, with what must stand before it.
func Start(ctx context.Context, dir, unit string, self, program []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, errors.New("it did not start"))
	defer cancel()
	keep := append(append(append([]string{}, self...), "deploy", "node", "keep", "--dir", dir, "--"), program...)
	manager := findManager(ctx)
	if manager != "" {
		if err := os.WriteFile(filepath.Join(dir, managerName), []byte(manager+"\n"), 0o600); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		args := []string{"--" + manager, "--quiet", "--collect", "--unit=" + unit, "--property=NoNewPrivileges=yes", "--working-directory=" + dir, "--"}
		if out, err := exec.CommandContext(ctx, "systemd-run", append(args, keep...)...).CombinedOutput(); err != nil {
			return fault.New(fault.Local, "systemd-run: %w: %s", err, tail(out))
		}
	} else {
		cmd := exec.Command(keep[0], keep[1:]...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		if err := cmd.Process.Release(); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	tick := time.NewTicker(look / 10)
	defer tick.Stop()
	for {
		if _, err := os.Stat(filepath.Join(dir, outputName)); err == nil {
			return nil // Keep makes it when it has the lock
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.Local, err)
		}
		select {
		case <-ctx.Done():
			return fault.Ended(ctx, "%w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// findManager returns which systemd would keep a program: "system", "user", or "".
func findManager(ctx context.Context) string {
	if _, err := exec.LookPath("systemd-run"); err != nil {
		return ""
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil && os.Geteuid() == 0 {
		return "system"
	}
	ctx, cancel := context.WithTimeout(ctx, startTime/3)
	defer cancel()
	if exec.CommandContext(ctx, "systemctl", "--user", "show-environment").Run() == nil {
		return "user"
	}
	return ""
}

// Keep runs a program until it ends or ctx does. The lock tells that it runs: the kernel ends that with this process,
// however it ends, and the program with it. A file tells how it ended.
func Keep(ctx context.Context, dir string, program []string) error {
	lock := flock.New(filepath.Join(dir, keptName))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return fault.New(fault.Local, "the node's program runs already: %w", err)
	}
	defer lock.Close()
	out, err := os.OpenFile(filepath.Join(dir, outputName), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer out.Close()
	runtime.LockOSThread() // Pdeathsig is about the thread
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, startTime
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	text := ""
	if err := cmd.Run(); err != nil {
		text = err.Error()
	}
	return fault.Wrap(fault.Local, os.WriteFile(filepath.Join(dir, endedName), []byte(text), 0o600))
}

// Await waits until the program that Keep runs in dir has ended, or until it is ready, or until in ends: that is whoever waits.
// The error says how the program ended.
func Await(ctx context.Context, dir string, ready bool, in io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel(errors.New("whoever waited has gone"))
	}()
	lock := flock.New(filepath.Join(dir, keptName), flock.SetFlag(os.O_RDWR))
	defer lock.Close()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel(nil)
	ended := make(chan struct{})
	waiting.Go(func() {
		if ok, err := lock.TryRLockContext(ctx, look); ok || err != nil && ctx.Err() == nil {
			close(ended) // end tells of an error
		}
	})
	if ready {
		err := awaitReady(ctx, filepath.Join(dir, outputName), ended)
		if err2 := end(dir); err != nil && ctx.Err() == nil && err2 != nil {
			return fault.New(fault.KindOf(err), "%w: %w", err, err2)
		}
		return err
	}
	select {
	case <-ended:
		return end(dir)
	case <-ctx.Done():
		return fault.Ended(ctx, "%w", context.Cause(ctx))
	}
}

// end says how a program ended.
func end(dir string) error {
	how, err := os.ReadFile(filepath.Join(dir, endedName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Local, "it was killed")
	case err != nil:
		return fault.Wrap(fault.Local, err)
	case len(how) > 0:
		return fault.New(fault.Local, "%s", strings.TrimSpace(string(how)))
	}
	return nil
}
