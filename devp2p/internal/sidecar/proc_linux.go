package sidecar

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
)

// processBehind looks at the process that listens on a Unix socket.
func processBehind(socket string) (*process, error) {
	pid, err := peerOf(socket)
	if err != nil {
		return nil, err
	}
	dir := fmt.Sprintf("/proc/%d", pid)
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return nil, err
	}
	p := &process{args: strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")}
	return p, p.readSockets(dir)
}

// peerOf returns the process at the other end of a Unix socket.
func peerOf(socket string) (int, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		cred, optErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if optErr != nil {
		return 0, optErr
	}
	if cred.Pid <= 0 {
		return 0, errors.New("the process is in another container")
	}
	return int(cred.Pid), nil
}

// The states of TCP sockets in /proc/net/tcp.
const (
	tcpEstablished = "01"
	tcpSynSent     = "02"
	tcpListen      = "0A"
)

// readSockets counts the process's sockets that reach outside loopback.
func (p *process) readSockets(dir string) error {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return err
	}
	inodes := map[string]bool{}
	for _, fd := range fds {
		link, err := os.Readlink(dir + "/fd/" + fd.Name())
		if err != nil {
			continue // closed since it was listed
		}
		if s, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes[strings.TrimSuffix(s, "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		b, err := os.ReadFile(dir + "/net/" + table)
		if errors.Is(err, os.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || !inodes[f[9]] {
				continue
			}
			local, remote, err := kernelAddrs(f[1], f[2])
			if err != nil {
				return err
			}
			switch {
			case strings.HasPrefix(table, "udp"):
				if !local.IsLoopback() {
					p.udp++
				}
			case f[3] == tcpListen:
				if !local.IsLoopback() {
					p.listen++
				}
			case (f[3] == tcpEstablished || f[3] == tcpSynSent) && !remote.IsLoopback():
				p.connected++
			}
		}
	}
	return nil
}

func kernelAddrs(local, remote string) (l, r netip.Addr, err error) {
	if l, err = kernelAddr(local); err == nil {
		r, err = kernelAddr(remote)
	}
	return l, r, err
}

// kernelAddr reads an address as /proc/net writes it: 32-bit words in the machine's order,
// which is little-endian on all platforms of Chive, and the port.
func kernelAddr(s string) (netip.Addr, error) {
	text, _, ok := strings.Cut(s, ":")
	b, err := hex.DecodeString(text)
	if !ok || err != nil || len(b)%4 != 0 {
		return netip.Addr{}, fmt.Errorf("sidecar: the kernel wrote an address as %q", s)
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.Addr{}, fmt.Errorf("sidecar: the kernel wrote an address as %q", s)
	}
	return a.Unmap(), nil
}
