package cli

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/namespace"
	"github.com/chivenet/chive/internal/proxydial"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/userstack"
)

// insideNamespace ends the process if it is one that runInNamespace has started, when that is done.
func insideNamespace() { namespace.Inside() }

// The addresses of a program's network. No host of the Internet has them.
var (
	execDevice4    = netip.MustParseAddr("198.18.0.1")
	execDevice6    = netip.MustParseAddr("fd15:159f:ab53::1")
	execNameserver = netip.MustParseAddr("198.18.0.2")
	execNames      = netip.MustParsePrefix("100.64.0.0/10")
)

// execMTU is larger than Ethernet's: fewer packets carry the same bytes.
const execMTU = 16 << 10

// runInNamespace runs the program in namespaces whose only way out is w.
func runInNamespace(ctx context.Context, p *program, open opener) (code int, err error) {
	// Before the client starts, which takes longer and may be in vain.
	inside, err := namespace.New(namespace.Config{
		Path: p.path, Args: p.args, Env: withoutProxies(os.Environ()), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Addrs: []netip.Addr{execDevice4, execDevice6}, Nameserver: execNameserver, MTU: execMTU,
	})
	if errors.Is(err, namespace.ErrDenied) {
		return 0, fault.New(fault.KindOf(err), "the program was not started, because it cannot have a network of its own: %w. "+
			"Let users make namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns) and use /dev/net/tun, "+
			"or run this as root; --no-namespace only sets variables for programs that look for a proxy, and guarantees nothing", err)
	}
	if err != nil {
		return 0, fault.New(fault.KindOf(err), "the program was not started: %w", err)
	}
	defer inside.Kill()
	w, end, err := open()
	if err != nil {
		inside.TUN.Close()
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	names, err := socks.NewAutomap([]string{"."}, execNames, netip.Prefix{})
	if err != nil {
		inside.TUN.Close()
		return 0, err
	}
	stack, err := userstack.New(inside.TUN, userstack.Config{
		Dialer: names.Dialer(proxydial.Dialer{Client: w.Asker}), Nameserver: execNameserver, MTU: execMTU, MaxConns: p.maxConns, Log: p.log,
	})
	if err != nil {
		return 0, err
	}
	defer stack.Close()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, namespace.Signals()...)
	defer signal.Stop(signals)
	return inside.Run(context.WithoutCancel(ctx), signals)
}

// passSignals returns the signals that a program without namespaces gets. A terminal sends those that
// the user types to the program itself.
func passSignals() (<-chan os.Signal, func()) {
	passed, typed := make(chan os.Signal, 16), make(chan os.Signal, 1)
	signal.Notify(passed, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Notify(typed, syscall.SIGINT, syscall.SIGQUIT)
	return passed, func() { signal.Stop(passed); signal.Stop(typed) }
}

// exitCodeOf returns a program's exit code as shells have it.
func exitCodeOf(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
