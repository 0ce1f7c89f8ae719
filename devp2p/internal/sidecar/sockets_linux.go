package sidecar

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// processBehind looks at the process that answers at an endpoint.
func processBehind(at endpoint) (*process, error) {
	pid, err := pidBehind(at)
	if err != nil {
		return nil, err
	}
	// Ports of loopback lead to it in its own network alone.
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	if ours != theirs {
		return nil, errors.New("sidecar: the node is in another network namespace")
	}
	return readProcess(pid)
}

func readProcess(pid int) (*process, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return nil, err
	}
	started, err := startOf(dir)
	if err != nil {
		return nil, err
	}
	p := &process{args: strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"), started: fmt.Sprint(pid, " ", started)}
	p.again = func() (*process, error) { return readProcess(pid) }
	return p, p.readSockets(dir)
}

func pidBehind(at endpoint) (int, error) {
	if at.addr.IsValid() {
		return listenerAt(at.addr)
	}
	return peerOf(at.socket)
}

// startOf returns when a process began, in the kernel's words: field 22 of its stat.
func startOf(dir string) (string, error) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return "", err
	}
	// The second field, in brackets, is a name that the process chose.
	_, after, ok := strings.Cut(string(stat[max(strings.LastIndex(string(stat), ")"), 0):]), ")")
	f := strings.Fields(after)
	if !ok || len(f) < 20 {
		return "", errors.New("sidecar: the kernel's words about a process are too short")
	}
	return f[19], nil
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

// listenerAt returns the process that takes connections at an address of loopback. If several do, it is an
// error: nobody knows which of them answers.
func listenerAt(addr netip.AddrPort) (int, error) {
	inode := ""
	for _, table := range []string{"tcp", "tcp6"} {
		err := eachSocket("/proc/self", table, func(s kernelSocket) error {
			if s.state != tcpListen || s.local.Port() != addr.Port() {
				return nil
			}
			if a := s.local.Addr(); a != addr.Addr() && !a.IsUnspecified() {
				return nil
			}
			if inode != "" {
				return errors.New("sidecar: several sockets wait at the port of the node's JSON-RPC")
			}
			inode = s.inode
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	if inode == "" {
		return 0, errors.New("sidecar: nobody waits at the port of the node's JSON-RPC")
	}
	all, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return 0, err
	}
	found := 0
	for _, fds := range all {
		inodes, err := socketsOf(filepath.Dir(fds))
		if err != nil || !inodes[inode] { // an error: it has ended, or is somebody else's
			continue
		}
		if found != 0 {
			return 0, errors.New("sidecar: several processes wait at the port of the node's JSON-RPC")
		}
		if found, err = strconv.Atoi(filepath.Base(filepath.Dir(fds))); err != nil {
			return 0, err
		}
	}
	if found == 0 {
		return 0, errors.New("sidecar: the process at the port of the node's JSON-RPC is somebody else's")
	}
	return found, nil
}

// socketsOf returns the inodes of a process's sockets.
func socketsOf(dir string) (map[string]bool, error) {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return nil, err
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
	return inodes, nil
}

// tcpListen is the state of a TCP socket that waits for connections, in the kernel's table.
const tcpListen = "0A"

// tables are the kernel's tables of sockets that can reach other machines.
var tables = []string{"tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6"}

// readSockets notes the process's sockets.
func (p *process) readSockets(dir string) error {
	inodes, err := socketsOf(dir)
	if err != nil {
		return err
	}
	p.sockets, p.listens = map[socket]bool{}, map[uint16]bool{}
	for _, table := range tables {
		err := eachSocket(dir, table, func(k kernelSocket) error {
			if !inodes[k.inode] {
				return nil
			}
			waits := strings.HasPrefix(table, "tcp") && k.state == tcpListen
			if s, ok := classify(table, waits, k.local, k.remote); ok {
				p.sockets[s] = true
			}
			if waits {
				p.listens[k.local.Port()] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	// The table of sockets that see whole packets has no addresses.
	b, err := os.ReadFile(dir + "/net/packet")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 0 && inodes[f[len(f)-1]] {
			p.sockets[socket{kind: rawSocket}] = true
		}
	}
	return nil
}

// kernelSocket is a row of the kernel's tables.
type kernelSocket struct {
	local, remote netip.AddrPort
	state, inode  string
}

// eachSocket reads a table of the network in which a process is. A table that is not there has no sockets.
func eachSocket(dir, table string, f func(kernelSocket) error) error {
	b, err := os.ReadFile(dir + "/net/" + table)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no IPv6, for example
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[0] == "sl" {
			continue
		}
		k := kernelSocket{state: fields[3], inode: fields[9]}
		if k.local, err = kernelAddr(fields[1]); err != nil {
			return err
		}
		if k.remote, err = kernelAddr(fields[2]); err != nil {
			return err
		}
		if err := f(k); err != nil {
			return err
		}
	}
	return nil
}

// kernelAddr reads an address as /proc/net writes it: 32-bit words in the machine's order,
// which is little-endian on all platforms of Chive, and the port.
func kernelAddr(s string) (netip.AddrPort, error) {
	text, portText, ok := strings.Cut(s, ":")
	b, err := hex.DecodeString(text)
	port, portErr := strconv.ParseUint(portText, 16, 16)
	if !ok || err != nil || portErr != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("sidecar: the kernel wrote an address as %q", s)
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("sidecar: the kernel wrote an address as %q", s)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(port)), nil
}
