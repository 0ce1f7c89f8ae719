package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/socks"
)

// localPorts are the open ports of a process for local programs.
type localPorts struct {
	log     *slog.Logger
	servers []*socks.Server
	serving sync.WaitGroup
	failed  chan error // the error of the first listener that has failed for good
	lines   []string   // "socks 127.0.0.1:9050", for people and scripts
}

func newLocalPorts(log *slog.Logger) *localPorts {
	return &localPorts{log: log, failed: make(chan error, 1)}
}

// port is one port that a proxy opens.
type port struct {
	socks.Port
	kind   socks.Kind
	option string // its option's field
	number int    // among those of its kind
}

// all returns the ports with their flags. --socks "" opens no SOCKS port.
func (p *Ports) all() ([]port, error) {
	var out []port
	for _, k := range []struct {
		kind   socks.Kind
		option string
		texts  []string
	}{{socks.SOCKSPort, "SOCKS", p.SOCKS}, {socks.HTTPPort, "HTTP", p.HTTP}, {socks.DNSPort, "DNS", p.DNS}, {socks.TransPort, "Trans", p.Trans}} {
		number := 0
		for _, text := range k.texts {
			one, err := socks.ParsePort(k.kind, text)
			if err != nil {
				return nil, options.Wrong(k.option, "%w", err)
			}
			if one.Addr != "" {
				out = append(out, port{one, k.kind, k.option, number})
				number++
			}
		}
	}
	return out, nil
}

// isolated refuses flags that share what the client keeps apart on all ports.
func isolated(ports []port, c *chive.Config) error {
	for _, p := range ports {
		switch {
		case p.Shares&isolation.ByDestAddr != 0 && c.IsolateDestAddr:
			return options.Wrong(p.option, "NoIsolateDestAddr: isolate-dest-addr holds for all ports")
		case p.Shares&isolation.ByDestPort != 0 && c.IsolateDestPort:
			return options.Wrong(p.option, "NoIsolateDestPort: isolate-dest-port holds for all ports")
		}
	}
	return nil
}

// config returns the configuration of the servers, before the flags of each.
func (p *Ports) config(d socks.Dialer, reg *metrics.Registry, log *slog.Logger) socks.Config {
	cfg := socks.Config{
		Dialer: d, Log: log, Metrics: reg, ExtendedErrors: p.ExtendedErrors, MaxConns: p.MaxConnections,
		SafeSOCKS: p.SafeSOCKS, WarnUnsafe: p.WarnUnsafeSOCKS, TestSOCKS: p.TestSOCKS, TProxy: p.TransProxyType == transTProxy,
	}
	if p.IsolateClientAddr {
		cfg.Isolate |= isolation.ByClientAddr
	}
	if p.IsolateProtocol {
		cfg.Isolate |= isolation.ByProtocol
	}
	return cfg
}

// listening is a port that is open, and that nobody serves yet: connections wait there.
type listening struct {
	port
	l  net.Listener
	pc net.PacketConn // of a DNS port
}

func (o *listening) close() {
	o.l.Close()
	if o.pc != nil {
		o.pc.Close()
	}
}

// listen opens all ports of a proxy or, after an error, none.
func (p *Ports) listen() (open []listening, err error) {
	ports, err := p.all()
	if err != nil {
		return nil, err
	}
	for _, one := range ports {
		o := listening{port: one}
		switch one.kind {
		case socks.DNSPort:
			o.l, o.pc, err = listenBoth(one.Addr)
		case socks.TransPort:
			o.l, err = socks.ListenTrans(one.Addr, p.TransProxyType == transTProxy)
		default:
			o.l, err = one.Listen()
		}
		if err != nil {
			closePorts(open)
			return nil, options.In(one.option, err)
		}
		open = append(open, o)
	}
	return open, nil
}

func closePorts(open []listening) {
	for i := range open {
		open[i].close()
	}
}

// openLocalPorts serves the ports of a proxy that are open.
func openLocalPorts(p *Ports, open []listening, d socks.Dialer, reg *metrics.Registry, log *slog.Logger) *localPorts {
	ps := newLocalPorts(log)
	warned := new(socks.Seldom)
	for _, one := range open {
		c := p.config(d, reg, log)
		c.Warned = warned
		c.Name = fmt.Sprintf("%s%d", one.kind, one.number) // streams of different listeners share no circuit
		one.Apply(&c)
		ps.open(c, one)
	}
	return ps
}

// servers make the server of each kind of port.
var servers = map[socks.Kind]func(socks.Config) *socks.Server{
	socks.SOCKSPort: socks.NewSOCKS, socks.HTTPPort: socks.NewHTTP, socks.DNSPort: socks.NewDNS, socks.TransPort: socks.NewTrans,
}

func (ps *localPorts) open(c socks.Config, o listening) {
	srv := servers[o.kind](c)
	ps.servers = append(ps.servers, srv)
	ps.lines = append(ps.lines, o.kind.String()+" "+o.l.Addr().String())
	if o.pc != nil {
		ps.serve(func() error { return srv.ServePacket(o.pc) })
	}
	ps.serve(func() error { return srv.Serve(o.l) })
}

// listenBoth opens one port for TCP and UDP. If addr leaves the choice to the
// system, and another program has the UDP port of the chosen number, it tries
// another number.
func listenBoth(addr string) (net.Listener, net.PacketConn, error) {
	for tries := 20; ; tries-- {
		l, err := socks.Listen(addr)
		if err != nil {
			return nil, nil, err
		}
		pc, err := socks.ListenPacket(l.Addr().String())
		if err == nil {
			return l, pc, nil
		}
		l.Close()
		if anyPort := addr == "0" || strings.HasSuffix(addr, ":0"); !anyPort || tries == 0 {
			return nil, nil, err
		}
	}
}

func (ps *localPorts) serve(f func() error) {
	ps.serving.Go(panics.Contain(ps.log, ps.fail, func() { ps.fail(f()) }))
}

// fail reports the error of a listener that has ended; nil is no failure.
func (ps *localPorts) fail(err error) {
	if err == nil {
		return
	}
	select {
	case ps.failed <- err:
	default: // an earlier failure already ends the process
	}
}

// shutdown stops accepting and lets connections finish until ctx ends.
func (ps *localPorts) shutdown(ctx context.Context) error {
	errs := make([]error, len(ps.servers))
	var wg sync.WaitGroup
	for i, s := range ps.servers {
		wg.Go(func() {
			defer panics.Recover(ps.log, func(err error) { errs[i] = err })
			errs[i] = s.Shutdown(ctx)
		})
	}
	wg.Wait()
	ps.serving.Wait()
	return errors.Join(errs...)
}

func (ps *localPorts) close() {
	for _, s := range ps.servers {
		s.Close()
	}
	ps.serving.Wait()
}
