package ctor

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Role is the role of a node in the network.
type Role uint8

// The roles.
const (
	Authority Role = iota // a directory authority, which also relays
	Relay                 // a relay that refuses to exit
	Exit                  // a relay that exits anywhere, loopback included
	Client                // a client with a SOCKS port
)

// String returns the prefix of nicknames for the role.
func (r Role) String() string {
	return [...]string{"auth", "relay", "exit", "client"}[r]
}

// Node is one tor process of a network. Its fields do not change.
type Node struct {
	Name        string
	Role        Role
	ID          ident.RelayID  // zero for a client
	V3Ident     ident.RSAID    // an authority's v3 identity, else zero
	OR, OR6     netip.AddrPort // ORPorts; OR6 is invalid without IPv6
	DirPort     netip.AddrPort // authorities only
	SOCKS       netip.AddrPort // clients only
	ControlAddr netip.AddrPort
	Dir         string // DataDirectory
	LogPath     string

	tor     string // the binary
	run     *runner
	torrc   string         // the configuration file's path
	clients func() []*Node // of its network

	mu   sync.Mutex
	proc *Process // guarded by mu: nil before the first start
}

// circuitLog is the file in which a client logs its circuits.
func (n *Node) circuitLog() string { return filepath.Join(n.Dir, "circuits") }

// Start runs the node's tor and returns when its control port answers.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil && n.proc.running() {
		return fault.New(fault.Config, "%s is already running", n.Name)
	}
	cookie := filepath.Join(n.Dir, "control_auth_cookie")
	if err := os.Remove(cookie); err != nil && !os.IsNotExist(err) {
		return fault.Wrap(fault.Local, err)
	}
	out, err := os.OpenFile(filepath.Join(n.Dir, "stdout"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer out.Close()
	cmd := exec.Command(n.tor, "--defaults-torrc", "/nonexistent", "-f", n.torrc, "--hush")
	cmd.Stdout, cmd.Stderr = out, out
	if n.proc, err = n.run.start(cmd); err != nil {
		return fault.New(fault.Local, "start %s: %w", n.Name, err)
	}
	for {
		c, err := DialControl(ctx, n.ControlAddr.String(), cookie)
		if err == nil {
			return c.Close()
		}
		select {
		case <-n.proc.done:
			return fault.New(fault.Local, "%s ended at its start (%v): %s", n.Name, n.proc.state(), n.lastWords())
		case <-ctx.Done():
			return fault.New(fault.Timeout, "%s does not answer on its control port: %w", n.Name, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop asks the process to end (SIGTERM twice: the second makes a relay end at
// once instead of draining) and waits; after a while (grace) it kills.
func (n *Node) Stop() error { return n.end(syscall.SIGTERM, syscall.SIGTERM) }

// Kill ends the process at once.
func (n *Node) Kill() error { return n.end(syscall.SIGKILL) }

func (n *Node) end(signals ...syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil || !n.proc.running() {
		return nil
	}
	return n.proc.end(grace, signals...)
}

// Restart stops the node and starts it again with the same keys and ports.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Stop(); err != nil {
		return err
	}
	return n.Start(ctx)
}

// PID returns the process number, or 0 if the node does not run.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil || !n.proc.running() {
		return 0
	}
	return n.proc.cmd.Process.Pid
}

// Control opens a connection to the node's control port.
func (n *Node) Control(ctx context.Context) (*Control, error) {
	return DialControl(ctx, n.ControlAddr.String(), filepath.Join(n.Dir, "control_auth_cookie"))
}

// lastWords returns the end of the process's output and log.
func (n *Node) lastWords() string {
	var out string
	for _, p := range []string{filepath.Join(n.Dir, "stdout"), n.LogPath} {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		out += string(b[max(0, len(b)-2000):])
	}
	return out
}
