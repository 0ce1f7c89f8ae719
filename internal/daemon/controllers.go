package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/proxydial"
)

// Controllers answer those who connect to a process's ports for controllers. Package tord has them: they share what they
// know with the program tor.
type Controllers interface {
	// Handler gets the log, also before Begin and after End.
	Handler() slog.Handler
	// Begin returns the server of the process's controllers. It is called once.
	Begin(Controlled) *control.Server
	// Reloaded is called when other settings are in effect.
	Reloaded()
	// End is called when the server is closed, and waits until nothing of it goes on.
	End()
}

// Controlled is a process as its controllers see and steer it.
type Controlled struct {
	Client  *Hosted      // nil: it is a relay
	Relay   *HostedRelay // nil: it is a client
	DataDir string
	File    string // its configuration file; empty: it has none
	Ports   []net.Addr
	Log     *slog.Logger
	Secrets func() control.Auth // of ports that are no unix sockets

	Values func(key string) []string // of an option, as they are in effect
	Reload func() error              // as SIGHUP; the log has the error
	End    func(now bool)            // as SIGTERM; now: what is open is cut
	Debug  func()                    // has the log tell all
}

// cookieName is the name of the file with the cookie, inside the data directory.
const cookieName = "control_auth_cookie"

// openControl is an open port for controllers.
type openControl struct {
	controlPort
	l    net.Listener
	list atomic.Pointer[control.Rules] // what its controllers may do now; nil: all
}

// controlPorts are the open ports for controllers of a process; nil: it has none.
type controlPorts struct {
	who    Controllers
	server *control.Server
	open   []*openControl
	auth   control.Auth
	wg     sync.WaitGroup
}

// openControls opens the ports for controllers.
func (p *Process) openControls() (*controlPorts, error) {
	all, err := controllingOf(p.Settings.role).controls()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	s := &controlPorts{who: p.Controllers}
	at := Controlled{
		DataDir: p.node.dataDir(), File: p.Settings.File(), Log: p.log, Secrets: func() control.Auth { return s.auth },
		Values: p.values, Reload: func() error { return p.reloadAsked().err() }, Debug: func() { p.level.Set(slog.LevelDebug) },
		End: func(now bool) {
			select {
			case p.asked <- now:
			default: // it ends already
			}
		},
	}
	switch n := p.node.(type) {
	case *relayNode:
		at.Relay = &HostedRelay{n: n, last: p.Settings}
	case *proxyNode:
		at.Client = &Hosted{n: n, last: p.Settings}
	case *onionNode:
		at.Client = &Hosted{n: &proxyNode{cfg: n.cfg, list: n.list, client: n.client, ports: n.ports, onions: n.onions, log: n.log}, last: p.Settings}
	}
	if at.Client != nil {
		if _, whole := at.Client.n.client.(proxydial.Whole); !whole {
			return nil, fault.New(fault.Config, "controllers cannot see this kind of client")
		}
	}
	for _, one := range all {
		l, err := one.Listen()
		if err != nil {
			s.closePorts()
			return nil, options.Wrong("Control", "%w", err)
		}
		o := &openControl{controlPort: one, l: l}
		o.list.Store(one.rules)
		s.open, at.Ports = append(s.open, o), append(at.Ports, l.Addr())
	}
	if err := s.secrets(p.node.dataDir(), controllingOf(p.Settings.role).ControlPasswords); err != nil {
		s.closePorts()
		return nil, err
	}
	s.server = s.who.Begin(at)
	for _, o := range s.open {
		s.wg.Go(panics.Contain(p.log, p.failed, func() {
			if err := s.server.Serve(context.Background(), o.l, o.door()); err != nil && !fault.Is(err, fault.Closed) {
				p.failed(fault.New(fault.Local, "a port for controllers has ended: %w", err))
			}
		}))
	}
	return s, nil
}

// door says who may come in. A socket that is for this user alone asks the kernel who has connected, and no more; one that the
// settings open for others has a list. All other ports ask for a secret.
func (o *openControl) door() control.Door {
	d := control.Door{Admit: control.Anybody, Rules: o.list.Load}
	if o.unix() {
		d.Secrets = func() control.Auth { return control.Auth{} }
		if !o.shared() {
			d.Admit, d.Own = control.OwnUser, true
		}
	}
	return d
}

// secrets makes the cookie, another one at each start, if there is a port that asks for it.
func (s *controlPorts) secrets(dataDir string, passwords []string) error {
	asks := false
	for _, o := range s.open {
		asks = asks || !o.unix()
	}
	// Without a cookie, the length of none is wrong for all, so nobody would be let in by mistake.
	s.auth.Cookie = make([]byte, control.CookieSize)
	rand.Read(s.auth.Cookie) // it never fails
	for _, text := range passwords {
		one, err := control.ParsePassword(text)
		if err != nil {
			return options.Wrong("ControlPasswords", "%w", err)
		}
		s.auth.Passwords = append(s.auth.Passwords, one)
	}
	if !asks {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(dataDir, cookieName))
	if err == nil {
		s.auth.CookieFile, err = path, atomicfile.Write(path, s.auth.Cookie, atomicfile.Secret)
	}
	return err
}

// lines returns a line for each port.
func (s *controlPorts) lines() (out []string) {
	if s == nil {
		return nil
	}
	for _, o := range s.open {
		out = append(out, "control "+o.l.Addr().String())
	}
	return out
}

// reread reads the lists again. One with a mistake changes nothing, and neither does a port that the settings do not have any
// more: it stays until the next start.
func (s *controlPorts) reread() (err error) {
	if s == nil {
		return nil
	}
	for _, o := range s.open {
		if o.controlPort.list == "" {
			continue
		}
		rules, wrong := control.ReadRules(o.controlPort.list)
		if wrong != nil {
			err = errors.Join(err, wrong)
			continue
		}
		o.list.Store(rules)
	}
	s.who.Reloaded()
	return err
}

func (s *controlPorts) closePorts() {
	for _, o := range s.open {
		o.l.Close()
	}
}

func (s *controlPorts) close() error {
	if s == nil {
		return nil
	}
	s.closePorts()
	s.wg.Wait()
	s.server.Close()
	s.who.End()
	if s.auth.CookieFile == "" {
		return nil
	}
	if err := os.Remove(s.auth.CookieFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// atLeast is a log for what is at least as grave as a level.
type atLeast struct {
	level slog.Leveler
	slog.Handler
}

// Enabled implements slog.Handler.
func (a atLeast) Enabled(_ context.Context, l slog.Level) bool { return l >= a.level.Level() }

// WithAttrs implements slog.Handler.
func (a atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{a.level, a.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (a atLeast) WithGroup(name string) slog.Handler {
	return atLeast{a.level, a.Handler.WithGroup(name)}
}

// values returns the values of an option that are in effect.
func (p *Process) values(key string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.Settings.Find(key); v == nil || !v.Live || p.latest == nil {
		return v.List()
	}
	return p.latest.Find(key).List()
}
