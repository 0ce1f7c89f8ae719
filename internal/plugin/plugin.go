package plugin

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/builtin"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/upstream"
)

// Time limits of a plugin for one connection.
const (
	socksTimeout = 30 * time.Second // for the SOCKS request
	dialTimeout  = 60 * time.Second // to connect to the other side
)

// Config configures Run.
type Config struct {
	Getenv  func(string) string
	Stdin   io.Reader
	Stdout  io.Writer
	Version string
	// LogLevel is the lowest level that is logged to Tor.
	LogLevel slog.Level
}

// plugin is a running plugin.
type plugin struct {
	env *ptspec.Env
	out *lines
	log *slog.Logger
	ctx context.Context // of dials: ends with the plugin
	wg  sync.WaitGroup

	mu    sync.Mutex             // guards what follows
	open  map[io.Closer]struct{} // listeners and connections
	ended bool
}

// Run runs a plugin from its first line to its end: until ctx ends, or until
// stdin is closed, if Tor chose that way to end it. When Run returns an error,
// it has already reported it to Tor.
func Run(ctx context.Context, cfg Config) error {
	p := &plugin{out: &lines{w: cfg.Stdout}, open: map[io.Closer]struct{}{}}
	p.log = slog.New(&logHandler{l: p.out, min: cfg.LogLevel})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.ctx = ctx
	env, err := ptspec.ParseEnv(cfg.Getenv)
	if pe, ok := errors.AsType[*ptspec.ProxyError](err); ok {
		p.out.say("VERSION 1")
		p.out.say("PROXY-ERROR %s", pe)
		return err
	}
	if errors.Is(err, ptspec.ErrVersion) {
		p.out.say("VERSION-ERROR no-version")
		return err
	}
	if err == nil {
		err = os.MkdirAll(env.StateDir, 0o700)
	}
	if err != nil {
		p.out.say("ENV-ERROR %s", err)
		return err
	}
	p.env = env
	p.out.say("VERSION 1")
	p.out.say("STATUS TYPE=version TRANSPORT=chive VERSION=%s IMPLEMENTATION=chive", quote(cfg.Version))
	if env.ExitOnStdinClose {
		go func() {
			defer panics.Recover(p.log, func(error) { cancel() })
			io.Copy(io.Discard, cfg.Stdin)
			cancel()
		}()
	}
	if env.Client {
		err = p.clients()
	} else {
		err = p.servers()
	}
	if err == nil {
		<-ctx.Done()
	}
	p.close()
	return err
}

// keep registers c, so that it is closed at the end. If the plugin has ended
// already, keep closes c at once.
func (p *plugin) keep(c io.Closer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		c.Close()
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *plugin) drop(c io.Closer) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	c.Close()
}

func (p *plugin) close() {
	p.mu.Lock()
	p.ended = true
	all := make([]io.Closer, 0, len(p.open))
	for c := range p.open {
		all = append(all, c)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
	p.wg.Wait()
}

// serve handles each connection of l in its own goroutine until l is closed.
func (p *plugin) serve(l net.Listener, handle func(net.Conn)) {
	l = listen.Patient(l, p.log, "transport")
	if !p.keep(l) {
		return
	}
	p.wg.Go(func() {
		defer panics.Recover(p.log, func(error) { p.drop(l) })
		for {
			c, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					p.log.Error("a transport stopped accepting connections", "err", fte.HideAddr(err))
				}
				return
			}
			p.wg.Go(func() {
				defer panics.Recover(p.log, func(error) { p.drop(c) })
				if p.keep(c) {
					handle(c)
					p.drop(c)
				}
			})
		}
	})
}

// clients opens a SOCKS port for each transport (pt-spec 3.3.2).
func (p *plugin) clients() error {
	dial := dialer(p.env.Proxy, p.env.Outbound)
	if p.env.Proxy != nil {
		p.out.say("PROXY DONE")
	}
	p.unknown("CMETHOD-ERROR")
	for _, name := range builtin.Names {
		if !p.env.Wants(name) {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.out.say("CMETHOD-ERROR %s %s", name, err)
			continue
		}
		p.serve(l, func(c net.Conn) { p.client(c, name, dial) })
		p.out.say("CMETHOD %s socks5 %s", name, l.Addr())
	}
	p.out.say("CMETHODS DONE")
	return nil
}

// unknown refuses the transports that Tor asked for and that do not exist.
func (p *plugin) unknown(word string) {
	for _, name := range p.env.Transports {
		if _, ok := builtin.Of(name); !ok && name != "*" {
			p.out.say("%s %s no such transport", word, name)
		}
	}
}

// client serves one SOCKS connection.
func (p *plugin) client(c net.Conn, name string, dial func(context.Context, string) (net.Conn, error)) {
	c.SetDeadline(time.Now().Add(socksTimeout))
	req, err := readSocks(c)
	if err != nil {
		p.log.Warn("a SOCKS request was refused", "err", fte.HideAddr(err))
		return
	}
	kind, _ := builtin.Of(name)
	t, err := kind.Dialer(req.args)
	if err != nil {
		writeSocks(c, socksFailure)
		p.log.Warn("the arguments of a bridge line were refused", "err", err)
		return
	}
	c.SetDeadline(time.Time{})
	out, err := p.reach(t, req.target, dial)
	if err != nil {
		writeSocks(c, socksUnreachable)
		p.out.say("STATUS TRANSPORT=%s ADDRESS=%s CONNECT=Failed ERRSTR=%s", name, req.target, quote(err.Error()))
		return
	}
	if !p.keep(out) {
		return
	}
	defer p.drop(out)
	p.out.say("STATUS TRANSPORT=%s ADDRESS=%s CONNECT=Success", name, req.target)
	if err := writeSocks(c, socksOK); err != nil {
		return
	}
	if _, _, err := fte.Relay(c, out); err != nil {
		p.log.Debug("a connection ended early", "err", fte.HideAddr(err))
	}
}

// reach connects to a bridge and runs the transport's handshake.
func (p *plugin) reach(t fte.Transport, target string, dial func(context.Context, string) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	raw, err := dial(ctx, target)
	if err != nil {
		return nil, err
	}
	if !p.keep(raw) {
		return nil, fault.New(fault.Closed, "the transport is closing")
	}
	c := t.Wrap(raw)
	if err := c.HandshakeContext(ctx); err != nil {
		p.drop(raw)
		return nil, err
	}
	p.mu.Lock()
	delete(p.open, raw) // the caller keeps c
	p.mu.Unlock()
	return c, nil
}

// servers opens a listener for each transport (pt-spec 3.3.3).
func (p *plugin) servers() error {
	p.unknown("SMETHOD-ERROR")
	for _, name := range builtin.Names {
		if !p.env.Wants(name) {
			continue
		}
		l, tell, err := p.server(name)
		if err != nil {
			p.out.say("SMETHOD-ERROR %s %s", name, err)
			continue
		}
		p.serve(l, func(c net.Conn) { p.toOR(c, name) })
		if a := tell.MethodText(); a != "" {
			p.out.say("SMETHOD %s %s ARGS:%s", name, l.Addr(), a)
		} else {
			p.out.say("SMETHOD %s %s", name, l.Addr())
		}
	}
	p.out.say("SMETHODS DONE")
	return nil
}

// server opens one transport's port.
func (p *plugin) server(name string) (net.Listener, ptspec.Args, error) {
	addr, ok := p.env.BindAddrs[name]
	if !ok {
		addr = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	}
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		return nil, nil, err
	}
	kind, _ := builtin.Of(name)
	ln, tell, err := kind.Listener(l, p.env.Options[name], p.env.StateDir, fte.ListenConfig{})
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return ln, tell, nil
}

// toOR carries one authenticated connection to Tor.
func (p *plugin) toOR(c net.Conn, name string) {
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	or, err := p.dialOR(ctx, netaddr.OfPort(c.RemoteAddr()), name)
	if err != nil {
		p.log.Error("cannot connect to Tor", "err", fte.HideAddr(err))
		return
	}
	if !p.keep(or) {
		return
	}
	defer p.drop(or)
	if _, _, err := fte.Relay(c, or); err != nil {
		p.log.Debug("a connection ended early", "err", fte.HideAddr(err))
	}
}

// dialOR connects to the ExtORPort if there is one, else to the ORPort.
func (p *plugin) dialOR(ctx context.Context, user netip.AddrPort, name string) (net.Conn, error) {
	var d net.Dialer
	if !p.env.ExtORPort.IsValid() {
		return d.DialContext(ctx, "tcp", p.env.ORPort.String())
	}
	cookie, err := readCookie(p.env.CookieFile)
	if err != nil {
		return nil, err
	}
	c, err := d.DialContext(ctx, "tcp", p.env.ExtORPort.String())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, socksTimeout)
	defer cancel()
	if err := upstream.Within(ctx, c, func() error { return extHello(c, rand.Reader, cookie, user, name) }); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
