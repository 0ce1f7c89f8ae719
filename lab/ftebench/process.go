package ftebench

import (
	"context"
	"net"
	"os/exec"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// startTime is how long a proxy may take to listen; fteproxy builds the tables
// of all formats first.
const startTime = 20 * time.Second

// split cuts an address, which this package made itself.
func split(addr string) (ip, port string) {
	ip, port, _ = net.SplitHostPort(addr)
	return ip, port
}

// freeAddr returns an address that nothing listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fault.New(fault.Network, "looking for a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// start runs a proxy on a free port and waits until it listens.
func start(ctx context.Context, binary, mode string, args []string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	ip, port := split(addr)
	args = append(args, "--"+mode+"_ip", ip, "--"+mode+"_port", port)
	p := &process{cmd: exec.CommandContext(ctx, binary, args...), addr: addr, ended: make(chan struct{})}
	if err := p.cmd.Start(); err != nil {
		return nil, fault.New(fault.Config, "starting %s: %w", binary, err)
	}
	go func() {
		p.cmd.Wait() // how it ends says nothing: it is killed in the end
		close(p.ended)
	}()
	if err := p.listens(ctx, mode); err != nil {
		return nil, err
	}
	return p, nil
}

// listens waits until a process listens, and stops it if it does not.
func (p *process) listens(ctx context.Context, what string) error {
	deadline := time.NewTimer(startTime)
	defer deadline.Stop()
	for {
		if c, err := net.Dial("tcp", p.addr); err == nil {
			c.Close()
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-p.ended:
			return fault.New(fault.Local, "the %s ended at once", what)
		case <-deadline.C:
			p.stop()
			return fault.New(fault.Timeout, "the %s does not listen after %v", what, startTime)
		case <-ctx.Done():
			p.stop()
			return fault.Wrap(fault.Closed, ctx.Err())
		}
	}
}
