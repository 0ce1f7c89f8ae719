package ftebench

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// startTime is how long a proxy may take to listen; fteproxy builds the tables
// of all formats first.
const startTime = time.Minute

// split cuts an address, which this package made itself.
func split(addr string) (ip, port string) {
	ip, port, _ = net.SplitHostPort(addr)
	return ip, port
}

// lease returns an address that nothing listens on, for a process to be
// started; wait gives it back.
func lease() (*process, error) {
	p := &process{ended: make(chan struct{})}
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	port, err := p.leases.Take(loopback)
	p.addr = netip.AddrPortFrom(loopback, port).String()
	return p, err
}

// wait waits for a process that was started. It ignores the exit status, because
// the process is killed in the end.
func (p *process) wait() {
	p.cmd.Wait()
	p.leases.Release()
	close(p.ended)
}

// start runs a proxy on a free port and waits until it listens.
func start(ctx context.Context, binary, mode string, args []string) (*process, error) {
	p, err := lease()
	if err != nil {
		return nil, err
	}
	ip, port := split(p.addr)
	args = append(args, "--"+mode+"_ip", ip, "--"+mode+"_port", port)
	p.cmd = exec.CommandContext(ctx, binary, args...)
	if err := p.cmd.Start(); err != nil {
		p.leases.Release()
		return nil, fault.New(fault.Config, "starting %s: %w", binary, err)
	}
	go p.wait()
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
