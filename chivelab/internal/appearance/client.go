package appearance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/target"
)

// Subject is a program whose appearance is judged: one that reads a torrc.
type Subject struct {
	Name    string
	Command []string // the program, and its first arguments
	Chive   bool     // it is Chive's
	Torrc   []string // further lines
	Plain   bool     // it has no clients that go by bridges, and no onion services
	IPv6    bool     // its clients use no IPv4
}

// client is one client of a subject.
type client struct {
	subject *Subject
	role    role
	dir     string
	socks   string
	control string
	proc    *ctor.Process
	marks   []mark
}

// mark is a moment of the script.
type mark struct {
	name string
	at   time.Time
}

func (c *client) mark(name string) { c.marks = append(c.marks, mark{name, time.Now()}) }

// newClient prepares the n-th client: its directory and its torrc.
func (nw *network) newClient(n int, s *Subject, as role) (*client, error) {
	c := &client{subject: s, role: as, dir: filepath.Join(nw.tor.Dir, fmt.Sprintf("judged%d", n))}
	for _, to := range []*string{&c.socks, &c.control} {
		port, err := nw.tor.FreePort()
		if err != nil {
			return nil, err
		}
		*to = fmt.Sprintf("127.0.0.1:%d", port)
	}
	lines := []string{
		"DataDirectory " + filepath.Join(c.dir, "data"), "SocksPort " + c.socks, "ControlPort " + c.control, "CookieAuthentication 1",
		"EnforceDistinctSubnets 0", "ClientDNSRejectInternalAddresses 0",
		"Log notice file " + filepath.Join(c.dir, "log"),
	}
	for l := range strings.Lines(nw.tor.Torrc()) {
		if strings.HasPrefix(l, "DirAuthority ") {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	switch as {
	case byBridge:
		lines = append(lines, nw.bridgeLines(s.IPv6)...)
	case asService:
		lines = append(lines, "HiddenServiceDir "+c.serviceDir(), "HiddenServicePort 80 "+nw.target.Addr(target.Web))
		fallthrough
	case asClient:
		lines = append(lines, nw.fallbacks()...)
	}
	if s.Chive {
		lines = append(lines, "TestingTorNetwork 1") // a network file's private addresses; no time of the client's hangs on it
	} else {
		lines = append(lines, "ExtendAllowPrivateAddresses 1", "GeoIPFile /dev/null", "GeoIPv6File /dev/null", "SafeLogging 0") // it keeps its schedule of the public network
	}
	if s.IPv6 {
		lines = append(lines, "ClientUseIPv4 0")
	}
	lines = append(lines, s.Torrc...)
	if err := os.MkdirAll(filepath.Join(c.dir, "data"), 0o700); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return c, fault.Wrap(fault.Local, os.WriteFile(filepath.Join(c.dir, "torrc"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

func (c *client) serviceDir() string { return filepath.Join(c.dir, "service") }

// launch runs the program and connects to its control port.
func (c *client) launch(ctx context.Context, nw *network) (*ctor.Control, error) {
	cookie := filepath.Join(c.dir, "data", "control_auth_cookie")
	if err := os.Remove(cookie); err != nil && !os.IsNotExist(err) {
		return nil, fault.Wrap(fault.Local, err)
	}
	args := append(append([]string{}, c.subject.Command[1:]...), "--defaults-torrc", "/nonexistent", "-f", filepath.Join(c.dir, "torrc"))
	cmd := exec.Command(c.subject.Command[0], args...)
	out, err := os.OpenFile(filepath.Join(c.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if c.proc, err = nw.rec.owners.run(nw.tor, cmd, c); err != nil {
		return nil, err
	}
	var ctl *ctor.Control
	err = c.await(ctx, func() (err error) {
		ctl, err = ctor.DialControl(ctx, c.control, cookie)
		return err
	})
	return ctl, err
}

// start runs the program and waits until it says that it is connected.
func (c *client) start(ctx context.Context, nw *network) (*ctor.Control, error) {
	ctl, err := c.launch(ctx, nw)
	if err != nil {
		return nil, err
	}
	return ctl, c.await(ctx, func() error {
		v, err := ctl.GetInfo(ctx, "status/bootstrap-phase")
		if err == nil && !strings.Contains(v, "PROGRESS=100 ") {
			err = fault.New(fault.Directory, "%s", v)
		}
		return err
	})
}

// await asks until there is no error, the program ends, or ctx does.
func (c *client) await(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-c.proc.Done():
			return fault.New(fault.Local, "%s has ended: %s", c.subject.Name, c.lastWords())
		case <-ctx.Done():
			return fault.New(fault.Timeout, "%s: %w; %s", c.subject.Name, err, c.lastWords())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *client) lastWords() string {
	var out string
	for _, name := range []string{"output", "log"} {
		b, err := os.ReadFile(filepath.Join(c.dir, name))
		if err == nil {
			out += string(b[max(0, len(b)-1000):])
		}
	}
	return out
}
