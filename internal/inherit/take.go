package inherit

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// The variables of sd_listen_fds(3), and the one of this package, which has a succession in JSON: its
// descriptors may have any numbers, and come with what they were opened for.
const (
	pidVar, fdsVar, namesVar = "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"
	ownVar                   = "CHIVE_PORTS"
)

// firstFD is the first descriptor that systemd hands over.
const firstFD = 3

// maxFDs is how many descriptors may be handed over. Nobody has as many ports.
const maxFDs = 1024

// succession is what a program hands over to the next one in the same process.
type succession struct {
	PID   int
	Times int // how often this has happened, with this time
	Ports []heir
}

// heir is a port that is handed over.
type heir struct {
	port
	FD    int
	Fixed bool
}

// takeLocked takes over what the variables announce. read also removes a variable.
//
// The package activation of github.com/coreos/go-systemd (v22.7.0) is not used: it believes any number
// of descriptors, so that a wrong one makes it use up all memory, and it gives descriptors that were not
// handed over to files whose finalizers close them, among them those of Go's own runtime.
func (s *set) takeLocked(pid int, read func(name string) string) error {
	of, count, names, own := read(pidVar), read(fdsVar), read(namesVar), read(ownVar)
	read("LISTEN_PIDFDID") // newer versions of systemd add it
	var all []*handed
	err := s.succeedLocked(pid, own, &all)
	if err == nil && of != "" {
		err = systemd(pid, of, count, names, &all)
	}
	if err != nil {
		for _, h := range all {
			h.conn.Close()
		}
		return err
	}
	s.waiting = append(s.waiting, all...)
	return nil
}

// systemd takes over what systemd hands over. What it hands to another process is not ours.
func systemd(pid int, of, count, names string, all *[]*handed) error {
	forPID, err := strconv.Atoi(of)
	if err != nil {
		return fault.New(fault.Config, "the variable %s is %.40q, which is no number of a process", pidVar, of)
	}
	if forPID != pid {
		return nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxFDs {
		return fault.New(fault.Config, "the variable %s is %.40q, which is not from 0 to %d", fdsVar, count, maxFDs)
	}
	called := strings.Split(names, ":")
	for i := range n {
		h := &handed{name: fmt.Sprintf("descriptor %d", firstFD+i), fixed: true}
		if i < len(called) && called[i] != "" {
			h.name += fmt.Sprintf(" (%.255q)", called[i])
		}
		if err := h.take(firstFD + i); err != nil {
			return err
		}
		*all = append(*all, h)
	}
	return nil
}

// succeedLocked takes over what the program before this one handed over.
func (s *set) succeedLocked(pid int, text string, all *[]*handed) error {
	if text == "" {
		return nil
	}
	var from succession
	if err := json.Unmarshal([]byte(text), &from); err != nil || len(from.Ports) > maxFDs || from.Times < 0 {
		return fault.New(fault.Config, "the variable %s is not of a program that handed over to this one", ownVar)
	}
	if from.PID != pid {
		return nil
	}
	s.times = from.Times
	for _, p := range from.Ports {
		h := &handed{port: p.port, fixed: p.Fixed, name: fmt.Sprintf("descriptor %d of the program before", p.FD)}
		if p.FD < firstFD {
			return fault.New(fault.Config, "the variable %s names the descriptor %d, which is not a port's", ownVar, p.FD)
		}
		if err := h.take(p.FD); err != nil {
			return err
		}
		*all = append(*all, h)
		if !h.isFor(p.Network) {
			return fault.New(fault.Config, "%s is not of the kind %.10q, as it should be", h.name, p.Network)
		}
	}
	return nil
}

// isFor reports whether a socket can be a port of a network.
func (h *handed) isFor(network string) bool {
	switch h.conn.(type) {
	case *net.TCPListener:
		return network == "tcp" || network == "tcp4" || network == "tcp6"
	case *net.UDPConn:
		return network == "udp"
	case *net.UnixListener:
		return network == "unix"
	}
	return false
}
