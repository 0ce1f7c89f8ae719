package socks

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/stream"
)

// NewSOCKS returns a server of SOCKS 4, 4a and 5.
func NewSOCKS(cfg Config) *Server {
	s := newServer("socks", cfg)
	s.handle = s.serveSOCKS
	return s
}

// notHTTP answers a browser that takes the SOCKS port for an HTTP proxy.
const notHTTP = "HTTP/1.0 501 This is a SOCKS proxy, not an HTTP proxy\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"This port speaks SOCKS. Configure it as a SOCKS proxy, version 5, and let the proxy look names up.\n"

// serveSOCKS reads a request, whose first byte is the version, and does what it
// asks for.
func (s *Server) serveSOCKS(ctx context.Context, c *client) {
	version, err := c.br.ReadByte()
	if err != nil {
		return // a port scan, or a client that changed its mind
	}
	var cmd command
	switch version {
	case 4:
		if cmd, err = readSOCKS4(c.br); err == nil {
			ctx, err = s.authenticate(ctx, cmd.user, "")
		}
		if err != nil {
			c.Write(appendReply4(nil, rep4Rejected, netip.Addr{}))
		}
	case 5:
		ctx, cmd, err = s.greet5(ctx, c)
	case 'G', 'H', 'P', 'C', 'O', 'D', 'T': // GET, HEAD, POST and PUT, CONNECT, OPTIONS, DELETE, TRACE
		c.Write([]byte(notHTTP))
		err = fault.New(fault.Protocol, "an HTTP request on the SOCKS port")
	default:
		err = fault.New(fault.Protocol, "SOCKS version %d", version)
	}
	if err != nil {
		s.count.failed.Inc()
		c.tell("a local program's SOCKS request was refused", err)
		return
	}
	if reason, err := s.carryOut(ctx, c, cmd); err != nil {
		c.tell("a local program's SOCKS request failed", err, "version", cmd.version, "command", cmd.cmd, "reply", reason)
	}
}

// authenticate asks Auth about a program.
func (s *Server) authenticate(ctx context.Context, user, password string) (context.Context, error) {
	if s.cfg.Auth == nil {
		return ctx, nil
	}
	ctx, err := s.cfg.Auth(ctx, user, password)
	if err != nil {
		return nil, fault.New(fault.Refused, "the program's user name or password: %w", err)
	}
	return ctx, nil
}

// greet5 negotiates the method, takes credentials, and reads the request. It
// sends every reply that a failure needs.
func (s *Server) greet5(ctx context.Context, c *client) (context.Context, command, error) {
	method, err := readMethods(c.br, s.cfg.PreferNoAuth)
	if err != nil {
		return nil, command{}, err
	}
	anonymous := ctx
	if method == methodNone {
		if anonymous, err = s.authenticate(ctx, "", ""); err != nil {
			method = methodRefused
		}
	}
	if _, err := c.Write([]byte{5, method}); err != nil {
		return nil, command{}, fault.New(fault.Network, "SOCKS 5 method: %w", err)
	}
	if err != nil {
		return nil, command{}, err
	}
	if method == methodRefused {
		return nil, command{}, fault.New(fault.Protocol, "no SOCKS 5 method that is spoken here (none; user name and password)")
	}
	version, err := c.br.ReadByte()
	if err != nil {
		return nil, command{}, readError(err)
	}
	var auth isolation.Auth
	var said stream.Origin
	// Some clients send credentials although no method was chosen, as the
	// specification's "extent of support" allows.
	if method == methodUserPass || version == 1 {
		if version != 1 {
			return nil, command{}, fault.New(fault.Protocol, "SOCKS 5 credentials of version %d", version)
		}
		user, pass, err := readUserPass(c.br)
		if err != nil {
			return nil, command{}, err
		}
		if err = checkAuth(user); err == nil {
			ctx, err = s.authenticate(ctx, user, pass)
		}
		if err != nil {
			c.Write([]byte{1, 1})
			return nil, command{}, err
		}
		if _, err := c.Write([]byte{1, 0}); err != nil {
			return nil, command{}, fault.New(fault.Network, "SOCKS 5 credentials: %w", err)
		}
		auth = isolation.NewAuth(user, pass)
		if s.cfg.Auth == nil { // else it is a secret
			said.User, said.Password, said.HasAuth = user, pass, true
		}
		if version, err = c.br.ReadByte(); err != nil {
			return nil, command{}, readError(err)
		}
	} else {
		ctx = anonymous
	}
	if version != 5 {
		return nil, command{}, fault.New(fault.Protocol, "SOCKS 5 request of version %d", version)
	}
	cmd, err := readSOCKS5(c.br)
	switch {
	case errors.Is(err, errBadAddressType):
		c.Write(appendReply5(nil, rep5BadAddress, Answer{}))
	case err != nil:
		c.Write(appendReply5(nil, rep5General, Answer{}))
	}
	cmd.auth, cmd.said = auth, said
	return ctx, cmd, err
}

// carryOut runs a command to its end. It returns the reply code that it sent.
func (s *Server) carryOut(ctx context.Context, c *client, cmd command) (code byte, err error) {
	host, err := parseHost(cmd.host)
	if err != nil {
		return s.refuse(c, cmd, rep5General, err)
	}
	protocol := "socks5"
	c.first = []byte{5}
	if cmd.version == 4 {
		protocol, c.first = "socks4", []byte{0}
	}
	if err := s.judge(cmd); err != nil {
		return s.refuse(c, cmd, rep5NotAllowed, err)
	}
	req := Request{Host: host, Port: cmd.port, Key: s.key(protocol, c.addr, cmd.auth), From: cmd.said}
	req.From.Protocol, req.From.Addr = protocol, c.program()
	switch {
	case cmd.cmd == cmdConnect:
		if cmd.port == 0 {
			return s.refuse(c, cmd, rep5General, fault.New(fault.Protocol, "CONNECT to port 0"))
		}
		return s.connect(ctx, c, cmd, req)
	case cmd.cmd == cmdResolve, cmd.cmd == cmdResolvePTR && cmd.version == 5:
		req.Port, req.Family = 0, s.cfg.wanted()
		return s.lookup(ctx, c, cmd, req)
	case cmd.cmd == cmdBind, cmd.cmd == cmdUDP:
		err = fault.New(fault.Refused, "SOCKS command %d: the Tor protocol has no BIND and no UDP", cmd.cmd)
	default:
		err = fault.New(fault.Protocol, "SOCKS command %#02x is unknown", cmd.cmd)
	}
	return s.refuse(c, cmd, rep5BadCommand, err)
}

// judge logs that a program gave an address, which it may have asked the system's
// resolver for, and says whether the request is refused for that.
func (s *Server) judge(cmd command) error {
	asks := cmd.cmd == cmdConnect || cmd.cmd == cmdResolve
	if s.cfg.TestSOCKS && asks {
		s.cfg.Log.Info("a local program's SOCKS request", "port", s.cfg.Name, "version", cmd.version, "safe", !cmd.literal)
	}
	if !asks || !cmd.literal || s.mapped(cmd.host) {
		return nil
	}
	if s.cfg.WarnUnsafe && s.cfg.Warned.Now() {
		s.cfg.Log.Warn("a local program gives addresses, not host names: if it looks names up itself, others see which; let it use SOCKS 4a, or SOCKS 5 with names (socks5h), or refuse such requests by safe-socks",
			"port", s.cfg.Name, "version", cmd.version, "refused", s.cfg.SafeSOCKS)
	}
	if s.cfg.SafeSOCKS {
		return fault.New(fault.Refused, "the program gave an address, not a host name (safe-socks)")
	}
	return nil
}

// mapped reports whether an address stands for another host, by the user's word: then nobody
// was asked for it.
func (s *Server) mapped(addr string) bool {
	m, ok := s.cfg.Dialer.(interface{ Mapped(host string) bool })
	return ok && m.Mapped(addr)
}

// refuse answers with a failure; code is SOCKS 5's.
func (s *Server) refuse(c *client, cmd command, code byte, err error) (byte, error) {
	s.count.failed.Inc()
	c.reply(cmd, code, Answer{})
	return code, err
}

// reply answers in the request's version. If a client does not read its
// reply, the next write fails.
func (c *client) reply(cmd command, code byte, ans Answer) error {
	var b []byte
	switch {
	case cmd.version == 5:
		b = appendReply5(nil, code, ans)
	case code == rep5OK:
		b = appendReply4(nil, rep4Granted, ans.Addr)
	default:
		b = appendReply4(nil, rep4Rejected, netip.Addr{})
	}
	return c.answer(b)
}

func (s *Server) connect(ctx context.Context, c *client, cmd command, req Request) (byte, error) {
	stream, err := s.dial(ctx, c, req)
	if err != nil {
		code := ReasonOf(err).socks5(s.cfg.ExtendedErrors)
		c.reply(cmd, code, Answer{})
		return code, err
	}
	if err := c.reply(cmd, rep5OK, Answer{}); err != nil {
		stream.Close()
		return rep5OK, fault.New(fault.Network, "reply: %w", err)
	}
	join(c, stream)
	return rep5OK, nil
}

func (s *Server) lookup(ctx context.Context, c *client, cmd command, req Request) (byte, error) {
	var answers []Answer
	var err error
	req.From.Port = c.LocalAddr().String()
	c.present(ctx, func(ctx context.Context) {
		began := time.Now()
		answers, err = s.resolve(ctx, cmd.cmd == cmdResolvePTR, req)
		if err == nil && cmd.version == 4 {
			answers = only(answers, netip.Addr.Is4)
		}
		if err == nil && len(answers) == 0 {
			err = Because(NotFound, fault.New(fault.Network, "the lookup has no answer that the reply can carry"))
		}
		s.observe(began, err)
	})
	if err != nil {
		code := ReasonOf(err).socks5(s.cfg.ExtendedErrors)
		c.reply(cmd, code, Answer{})
		return code, err
	}
	return rep5OK, c.reply(cmd, rep5OK, answers[0])
}

// resolve looks a name or an address up, within the time of a dial. A lookup
// of an address's address is answered at once.
func (s *Server) resolve(ctx context.Context, reverse bool, req Request) ([]Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	req.Permit = s.cfg.permits
	addr, err := netip.ParseAddr(req.Host)
	var barred error
	switch {
	case reverse: // a question about a name, whatever the address
		barred = s.cfg.bars(BarNames)
	case err == nil:
		barred = s.cfg.permits(req.Host)
	}
	if barred != nil {
		return nil, barred
	}
	switch {
	case reverse && err != nil:
		return nil, fault.New(fault.Protocol, "RESOLVE_PTR of something that is not an address")
	case reverse:
		return s.cfg.Dialer.ResolvePTR(ctx, addr, req)
	case err == nil:
		return []Answer{{Addr: addr, TTL: 60}}, nil
	}
	answers, err := s.cfg.Dialer.Resolve(ctx, req)
	return s.cfg.admitted(answers), err
}

// only keeps the answers with an address that passes.
func only(answers []Answer, ok func(netip.Addr) bool) []Answer {
	var kept []Answer
	for _, a := range answers {
		if a.Addr.IsValid() && ok(a.Addr.Unmap()) {
			kept = append(kept, a)
		}
	}
	return kept
}
