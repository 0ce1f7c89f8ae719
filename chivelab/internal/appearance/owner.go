package appearance

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
)

// owners finds out whose a connection is, by the kernel's table of sockets: all clients connect from
// one address, as C tor binds no socket to an address of its own for a relay on loopback.
type owners struct {
	mu   sync.Mutex // held while a program starts, so that its first connection finds it
	pids map[int]*client
}

// run starts a client's program.
func (o *owners) run(nw *ctor.Network, cmd *exec.Cmd, c *client) (*ctor.Process, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, err := nw.Run(cmd)
	if err == nil {
		o.pids[p.PID()] = c
	}
	return p, err
}

// of returns the client that has a connection from one address to another; nil: it is no client's. Both
// addresses count: the kernel gives one port to several connections, if they lead to different places.
func (o *owners) of(from, to netip.AddrPort) *client {
	o.mu.Lock()
	defer o.mu.Unlock()
	rows, err := socketTable()
	if err != nil {
		return nil
	}
	for _, s := range rows {
		if s.local != from || s.remote != to {
			continue
		}
		for pid, c := range o.pids {
			if holds(pid, s.inode) || c.role == alone && slices.ContainsFunc(children(pid), func(pid int) bool { return holds(pid, s.inode) }) {
				return c
			}
		}
	}
	return nil
}

// children returns the processes that a process has started, such as its pluggable transport.
func children(pid int) (out []int) {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		return nil // of the pattern
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// holds reports whether a process has a socket.
func holds(pid int, inode string) bool {
	fds := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	names, err := os.ReadDir(fds)
	if err != nil {
		return false // it has ended
	}
	for _, n := range names {
		to, err := os.Readlink(filepath.Join(fds, n.Name()))
		if err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// socket is a row of the kernel's table (proc_net_tcp(5)).
type socket struct {
	local, remote netip.AddrPort
	state         string // "01": the connection is open
	timer         string // "02" is that of keep-alive
	inode         string
}

func socketTable() ([]socket, error) {
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	six, err := os.ReadFile("/proc/net/tcp6")
	if err != nil && !os.IsNotExist(err) { // a kernel without IPv6
		return nil, fault.Wrap(fault.Local, err)
	}
	b = append(b, six...)
	var out []socket
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		local, remote := socketAddr(f[1]), socketAddr(f[2])
		if !local.IsValid() {
			continue // the table's head
		}
		timer, _, _ := strings.Cut(f[5], ":")
		out = append(out, socket{local, remote, f[3], timer, f[9]})
	}
	return out, nil
}

// socketAddr reads an address of the table: numbers of 32 bits as they lie in memory, and the port.
func socketAddr(s string) netip.AddrPort {
	addr, port, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(addr)
	if err != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a, uint16(n))
}

// keepsAlive reports whether one of a client's links has a timer of keep-alive.
func (r *recorder) keepsAlive(c *client) (bool, error) {
	rows, err := socketTable()
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.conns {
		for _, s := range rows {
			if k.client == c && s.local == k.port && s.remote == k.to && s.state == "01" && s.timer == "02" {
				return true, nil
			}
		}
	}
	return false, nil
}
