// Package inherit takes over ports that are open already: those that systemd hands to the process
// (sd_listen_fds(3)), and those of the program that ran in this process before an upgrade. Descriptors
// belong to a process, and so does what this package keeps: all of it is empty until Take, so that
// programs that import a client or a relay have nothing to do with it.
package inherit

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
)

// port is what a listener was asked for.
type port struct {
	Network string // "tcp", "tcp4", "tcp6", "udp" or "unix"
	Addr    string // as it was given: with port 0, another one is open
}

// handed is a socket that came from elsewhere.
type handed struct {
	port         // zero: it came from systemd
	name  string // for people: the descriptor's number and how systemd calls it
	fixed bool   // systemd made it: its file is not ours to remove
	conn  socket
	at    net.Addr
}

// socket is a net.Listener or a net.PacketConn.
type socket interface {
	syscall.Conn
	Close() error
}

// opened is a port of this process.
type opened struct {
	port
	fixed bool
	conn  syscall.Conn
}

// set has the ports of a process.
type set struct {
	mu      sync.Mutex // guards what follows
	taken   bool       // by Take
	times   int        // how often programs have handed over in this process
	waiting []*handed  // that no port has asked for yet
	open    []opened
	kept    *Kept // by Keep
}

var process set

// Take takes over what systemd or the program before this one hands to the process, and from now on
// remembers the ports that are opened. The variables that announce it are gone then, so that programs
// that this one starts do not see them. The error is of kind fault.Config if they are wrong, or if a
// descriptor is no socket that a port can have.
func Take() error {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.taken = true
	return process.takeLocked(os.Getpid(), func(name string) string {
		defer os.Unsetenv(name)
		return os.Getenv(name)
	})
}

// Times returns how often programs have handed over in this process.
func Times() int {
	process.mu.Lock()
	defer process.mu.Unlock()
	return process.times
}

// Listen returns the listener for a port that was handed over, or opens it. addr is an IP address with a
// port. lc is not used for a port that was handed over.
func Listen(lc *net.ListenConfig, network, addr string) (net.Listener, error) {
	h := process.find(network, addr)
	if h == nil {
		l, err := lc.Listen(context.Background(), network, addr)
		if err == nil {
			process.remember(network, addr, l.(syscall.Conn), false)
		}
		return l, err
	}
	return h.conn.(net.Listener), nil
}

// ListenPacket is Listen for datagrams of UDP.
func ListenPacket(addr string) (net.PacketConn, error) {
	h := process.find("udp", addr)
	if h == nil {
		c, err := net.ListenPacket("udp", addr)
		if err == nil {
			process.remember("udp", addr, c.(syscall.Conn), false)
		}
		return c, err
	}
	return h.conn.(net.PacketConn), nil
}

// Left closes what was handed over and no port has asked for. If systemd handed it over, it is an error of
// kind fault.Config: the settings and the unit do not agree. If it was a port of the program before, the
// settings have changed meanwhile.
func Left(log *slog.Logger) error {
	process.mu.Lock()
	defer process.mu.Unlock()
	return process.leftLocked(log)
}

func (s *set) leftLocked(log *slog.Logger) (err error) {
	for _, h := range s.waiting {
		h.conn.Close()
		switch {
		case h.Network == "" && err == nil:
			err = fault.New(fault.Config, "%s is open at %s, and no port of these settings has this address: give it to a port, or take it out of the socket's unit", h.name, where(h.at))
		case h.Network != "":
			log.Info("a port of the program before is closed: the settings have it no longer", "port", h.Addr)
			if h.Network == "unix" && !h.fixed {
				os.Remove(h.Addr) // nobody serves it: if it stays, the next listener there replaces it
			}
		}
	}
	s.waiting = nil
	return err
}

// find returns the socket for a port, if it was handed over, and remembers that this port is open.
func (s *set) find(network, addr string) *handed {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fits := range []func(*handed) bool{
		func(h *handed) bool { return h.port == port{network, addr} },
		func(h *handed) bool { return isAt(h.at, network, addr, false) },
		func(h *handed) bool { return isAt(h.at, network, addr, true) },
	} {
		if i := slices.IndexFunc(s.waiting, fits); i >= 0 {
			h := s.waiting[i]
			s.waiting = slices.Delete(s.waiting, i, i+1)
			s.open = append(s.open, opened{port{network, addr}, h.fixed, h.conn})
			return h
		}
	}
	return nil
}

func (s *set) remember(network, addr string, c syscall.Conn, fixed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		s.open = append(s.open, opened{port{network, addr}, fixed, c})
	}
}

// isAt reports whether a socket is open at an address. With any, an unspecified address is that of the
// other family too, as it is for package net.
func isAt(at net.Addr, network, addr string, anyFamily bool) bool {
	var have netip.AddrPort
	switch a := at.(type) {
	case *net.UnixAddr:
		return network == "unix" && a.Net == "unix" && samePath(a.Name, addr)
	case *net.TCPAddr:
		if !strings.HasPrefix(network, "tcp") {
			return false
		}
		have = a.AddrPort()
	case *net.UDPAddr:
		if network != "udp" {
			return false
		}
		have = a.AddrPort()
	default:
		return false
	}
	want, err := netip.ParseAddrPort(addr)
	if err != nil || want.Port() == 0 || want.Port() != have.Port() {
		return false
	}
	if w, h := want.Addr().Unmap(), have.Addr().Unmap(); !anyFamily {
		return w == h
	} else {
		return w.IsUnspecified() && h.IsUnspecified() && (network == "tcp" || network == "udp")
	}
}

// samePath reports whether two paths are those of one socket.
func samePath(a, b string) bool {
	if x, err := filepath.Abs(a); err == nil && filepath.IsAbs(a) { // others are names without a file
		if y, err := filepath.Abs(b); err == nil && x == y {
			return true
		}
	} else {
		return false
	}
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// where names an address for people.
func where(a net.Addr) string {
	if a.String() == "" {
		return "no address (" + a.Network() + ")"
	}
	return fmt.Sprintf("%s (%s)", a, a.Network())
}
