package ftebench

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/net/proxy"

	"github.com/chivenet/chive/internal/fault"
)

// obfs4proxy is only a pluggable transport. Tor starts it, configures it with
// its environment, reads its addresses from its output, and passes a bridge's
// arguments as SOCKS5 user name and password. The bench does the same.

// startObfs4 fills in pr with obfs4proxy's server, its client, and a dialer
// through a counter; the client serves both dialers.
func startObfs4(ctx context.Context, binary, dir, backend string, pr *pair) (err error) {
	if binary == "" {
		return fault.New(fault.Config, "where is obfs4proxy?")
	}
	var line string
	pr.server, line, err = startPlugin(ctx, binary, "SMETHOD obfs4 ", "TOR_PT_STATE_LOCATION="+filepath.Join(dir, "obfs4-server"),
		"TOR_PT_SERVER_TRANSPORTS=obfs4", "TOR_PT_SERVER_BINDADDR=obfs4-127.0.0.1:0", "TOR_PT_ORPORT="+backend)
	if err != nil {
		return err
	}
	addr, args, ok := strings.Cut(line, " ARGS:")
	if !ok {
		return fault.New(fault.Local, "obfs4proxy says %q, and no arguments", line)
	}
	pr.server.addr = addr
	if pr.count, err = newCounter(addr); err != nil {
		return err
	}
	pr.client, line, err = startPlugin(ctx, binary, "CMETHOD obfs4 socks5 ", "TOR_PT_STATE_LOCATION="+filepath.Join(dir, "obfs4-client"),
		"TOR_PT_CLIENT_TRANSPORTS=obfs4")
	if err != nil {
		return err
	}
	pr.client.addr = line
	auth := &proxy.Auth{User: strings.ReplaceAll(args, ",", ";"), Password: "\x00"}
	through := func(target string) (dialer, error) {
		d, err := proxy.SOCKS5("tcp", line, auth, proxy.Direct)
		if err != nil {
			return nil, fault.New(fault.Config, "socks: %w", err)
		}
		// Dial, unlike DialContext, returns the TCP connection itself.
		return func(context.Context) (net.Conn, error) { return d.Dial("tcp", target) }, nil
	}
	if pr.dial, err = through(addr); err != nil {
		return err
	}
	pr.counted, err = through(pr.count.addr())
	return err
}

// startPlugin runs a pluggable transport with some more environment, and
// returns the rest of the line that begins with want.
func startPlugin(ctx context.Context, binary, want string, env ...string) (*process, string, error) {
	p := &process{cmd: exec.CommandContext(ctx, binary), ended: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "TOR_PT_MANAGED_TRANSPORT_VER=1"), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, "", fault.Wrap(fault.Local, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, "", fault.New(fault.Config, "starting %s: %w", binary, err)
	}
	found := make(chan string, 1)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			if rest, ok := strings.CutPrefix(s.Text(), want); ok {
				found <- rest
				break
			}
		}
		io.Copy(io.Discard, out)
		p.wait()
	}()
	deadline := time.NewTimer(startTime)
	defer deadline.Stop()
	select {
	case rest := <-found:
		return p, rest, nil
	case <-p.ended:
		return nil, "", fault.New(fault.Local, "%s ended at once", filepath.Base(binary))
	case <-deadline.C:
	case <-ctx.Done():
	}
	p.stop()
	return nil, "", fault.New(fault.Timeout, "%s says no %q", filepath.Base(binary), want)
}
