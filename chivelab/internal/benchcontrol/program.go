package benchcontrol

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// program is one of the two that are measured.
type program struct {
	name           string
	command        []string
	dir            string
	socks, address netip.AddrPort
	figures        Figures

	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has ended
	control *ctor.Control
}

// prepare writes the torrc, which is the same for both but for ports and folders.
func (p *program) prepare(nw *ctor.Network) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	for _, a := range []*netip.AddrPort{&p.socks, &p.address} {
		port, err := nw.FreePort()
		if err != nil {
			return err
		}
		*a = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	}
	text := shared(nw.Torrc()) + fmt.Sprintf("DataDirectory %s\nSocksPort %s\nControlPort %s\nCookieAuthentication 1\n", p.at("data"), p.socks, p.address)
	return fault.Wrap(fault.Local, os.WriteFile(p.at("torrc"), []byte(text), 0o600))
}

// shared returns the lines of a network's torrc that both programs take: what describes the network, and who ends them.
func shared(torrc string) string {
	var b strings.Builder
	for l := range strings.Lines(torrc) {
		if key, _, _ := strings.Cut(l, " "); slices.Contains([]string{"TestingTorNetwork", "EnforceDistinctSubnets", "DirAuthority", "GeoIPFile", "GeoIPv6File", "__OwningControllerProcess"}, key) {
			b.WriteString(l)
		}
	}
	return b.String()
}

func (p *program) at(name string) string { return filepath.Join(p.dir, name) }

// connectTime is the longest that a program may take to be connected, and to end.
const connectTime = time.Minute

// start starts the program, and returns a connection to its control port when it is connected. The torrc has it end with this process.
func (p *program) start(ctx context.Context) (*ctor.Control, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	cookie := p.at("data/control_auth_cookie")
	if err := os.Remove(cookie); err != nil && !os.IsNotExist(err) {
		return nil, fault.Wrap(fault.Local, err)
	}
	out, err := os.Create(p.at("stdout"))
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer out.Close()
	p.cmd = exec.Command(p.command[0], append(slices.Clone(p.command[1:]), "--defaults-torrc", "/nonexistent", "-f", p.at("torrc"))...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	ended := make(chan struct{})
	p.ended = ended
	go func() {
		defer close(ended)
		p.cmd.Wait() // ProcessState has the error
	}()
	c, err := p.connected(ctx, cookie)
	if err != nil {
		text, _ := os.ReadFile(p.at("stdout"))
		p.kill()
		return nil, fault.New(fault.KindOf(err), "%w: %s", err, text)
	}
	return c, nil
}

func (p *program) connected(ctx context.Context, cookie string) (c *ctor.Control, err error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if c == nil {
			c, err = ctor.DialControl(ctx, p.address.String(), cookie)
		}
		if c != nil {
			var phase string
			if phase, err = c.GetInfo(ctx, "status/bootstrap-phase"); err == nil && strings.Contains(phase, "PROGRESS=100") {
				return c, nil
			}
		}
		select {
		case <-tick.C:
			continue
		case <-p.ended:
			err = fault.New(fault.Local, "it has ended: %v", p.cmd.ProcessState)
		case <-ctx.Done():
			err = fault.New(fault.Timeout, "it does not connect: %w (%v)", context.Cause(ctx), err)
		}
		if c != nil {
			c.Close()
		}
		return nil, err
	}
}

// halt sends SIGNAL HALT, and returns how long the process took to end.
func (p *program) halt(ctx context.Context, c *ctor.Control) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	began := time.Now()
	if err := c.Signal(ctx, "HALT"); err != nil && !fault.Is(err, fault.Network) { // it may end before it answers
		return 0, err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		return 0, fault.New(fault.Timeout, "it does not end: %w", context.Cause(ctx))
	}
	took := time.Since(began)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return took, fault.New(fault.Local, "it ended with %v after HALT", p.cmd.ProcessState)
	}
	return took, nil
}

func (p *program) kill() {
	if p.control != nil {
		p.control.Close()
		p.control = nil
	}
	if p.cmd != nil && p.cmd.Process != nil {
		p.cmd.Process.Kill()
		<-p.ended
	}
}

// memory returns the resident memory in megabytes.
func (p *program) memory() (float64, error) {
	u, err := proc.Of(p.cmd.Process.Pid)
	return float64(u.RSS) / 1e6, err
}

// transfer moves bytes over one stream, and returns how many megabytes it moved in a second.
func (p *program) transfer(ctx context.Context, tg *target.Target, bytes int64, listen bool) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if listen {
		stop, err := p.listenToAll(ctx)
		if err != nil {
			return 0, err
		}
		defer stop()
	}
	conn, err := socksclient.Dialer{Proxy: p.socks.String()}.DialContext(ctx, "tcp", tg.Addr(target.Source))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	began := time.Now()
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, uint64(bytes))); err != nil {
		return 0, fault.Wrap(fault.Network, err)
	}
	got, err := io.Copy(io.Discard, io.LimitReader(conn, bytes))
	if err == nil && got != bytes {
		err = fault.New(fault.Network, "the stream ended after %d of %d bytes", got, bytes)
	}
	return float64(bytes) / 1e6 / time.Since(began).Seconds(), err
}
