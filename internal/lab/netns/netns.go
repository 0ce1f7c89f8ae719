// Package netns gives measurements a network of their own: a Linux network
// namespace that has only a loopback, which acknowledges at once.
//
// On an ordinary loopback the kernel delays acknowledgements by up to 40 ms, and C
// tor uses Nagle's algorithm. Together they cause waits that have nothing to do
// with the clients. Routes with "quickack 1" prevent that for every process.
package netns

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// routes are the loopback's local routes, each replaced by itself with quickack.
var routes = [][]string{
	{"127.0.0.0/8", "dev", "lo", "proto", "kernel", "scope", "host", "src", "127.0.0.1"},
	{"127.0.0.1", "dev", "lo", "proto", "kernel", "scope", "host", "src", "127.0.0.1"},
}

// inside marks the environment of a process that Command started.
const inside = "CHIVE_NETNS"

// Inside reports whether this process already runs in a namespace made here.
func Inside() bool { return os.Getenv(inside) != "" }

// Available returns nil if a namespace can be made here, or else the reason why
// not. It needs Linux, root and iproute2.
func Available() error {
	if os.Geteuid() != 0 {
		return fault.New(fault.Local, "a network namespace needs root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fault.New(fault.Local, "a network namespace needs iproute2: %w", err)
	}
	return nil
}

// Namespace is a network namespace; Close removes it.
type Namespace struct{ name string }

// New makes the namespace of the given name, which must not exist.
func New(ctx context.Context, name string) (*Namespace, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if err := ip(ctx, "netns", "add", name); err != nil {
		return nil, err
	}
	ns := &Namespace{name}
	err := ip(ctx, "-n", name, "link", "set", "lo", "up")
	for _, r := range routes {
		if err == nil {
			err = ip(ctx, append(append([]string{"-n", name, "route", "change", "table", "local", "local"}, r...), "quickack", "1")...)
		}
	}
	if err != nil {
		ns.Close()
		return nil, err
	}
	return ns, nil
}

// WayOut gives the namespace a default route that leads nowhere: the interface out0, whose
// other end nobody reads. So packets for outside are sent, and can be counted.
func (ns *Namespace) WayOut(ctx context.Context) error {
	for _, c := range []string{
		"link add out0 type veth peer name out1",
		"link set out0 addrgenmode none", "link set out1 addrgenmode none", // or IPv6 looks for neighbours
		"addr add 10.77.0.2/24 dev out0", "link set out0 up", "link set out1 up",
		"neigh add 10.77.0.1 lladdr 02:00:00:00:00:01 dev out0 nud permanent",
		"route add default via 10.77.0.1",
	} {
		if err := ip(ctx, append([]string{"-n", ns.name}, strings.Fields(c)...)...); err != nil {
			return err
		}
	}
	return nil
}

// Command returns a command that runs a program inside, with its environment
// marked so that Inside is true there.
func (ns *Namespace) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", ns.name, program}, args...)...)
	cmd.Env = append(os.Environ(), inside+"="+ns.name)
	return cmd
}

// Close removes the namespace; processes that still run in it keep it until they
// end.
func (ns *Namespace) Close() error {
	return ip(context.Background(), "netns", "del", ns.name)
}

func ip(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fault.New(fault.Local, "ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
