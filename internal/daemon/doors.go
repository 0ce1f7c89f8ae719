package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/socks"
)

// doors are the open SOCKS, HTTP and DNS listeners of a process.
type doors struct {
	log     *slog.Logger
	servers []*socks.Server
	serving sync.WaitGroup
	failed  chan error // the error of the first listener that has failed for good
	lines   []string   // "socks 127.0.0.1:9050", for people and scripts
}

func newDoors(log *slog.Logger) *doors { return &doors{log: log, failed: make(chan error, 1)} }

// openDoors opens all ports of a proxy or, after an error, none.
func openDoors(p *Ports, d socks.Dialer, reg *metrics.Registry, log *slog.Logger) (*doors, error) {
	ds := newDoors(log)
	cfg := socks.Config{
		Dialer: d, Log: log, Metrics: reg, ExtendedErrors: p.ExtendedErrors, MaxConns: p.MaxConnections,
	}
	if p.IsolateClientAddr {
		cfg.Isolate |= isolation.ByClientAddr
	}
	if p.IsolateProtocol {
		cfg.Isolate |= isolation.ByProtocol
	}
	kinds := map[string]func(socks.Config) *socks.Server{"socks": socks.NewSOCKS, "http": socks.NewHTTP, "dns": socks.NewDNS}
	for _, door := range p.kinds() {
		for i, addr := range door.addrs {
			c := cfg
			c.Name = fmt.Sprint(door.name, i) // streams of different listeners share no circuit
			if err := ds.open(kinds[door.name](c), door.name, addr); err != nil {
				ds.close()
				return nil, fmt.Errorf("%s: %w", door.name, err)
			}
		}
	}
	return ds, nil
}

func (ds *doors) open(srv *socks.Server, name, addr string) error {
	ds.servers = append(ds.servers, srv)
	var l net.Listener
	var err error
	if name == "dns" {
		var pc net.PacketConn
		if l, pc, err = listenBoth(addr); err != nil {
			return err
		}
		ds.serve(func() error { return srv.ServePacket(pc) })
	} else if l, err = socks.Listen(addr); err != nil {
		return err
	}
	ds.lines = append(ds.lines, name+" "+l.Addr().String())
	ds.serve(func() error { return srv.Serve(l) })
	return nil
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

func (ds *doors) serve(f func() error) {
	ds.serving.Go(panics.Contain(ds.log, ds.fail, func() { ds.fail(f()) }))
}

// fail reports the error of a listener that has ended; nil is no failure.
func (ds *doors) fail(err error) {
	if err == nil {
		return
	}
	select {
	case ds.failed <- err:
	default: // an earlier failure already ends the process
	}
}

// shutdown stops accepting and lets connections finish until ctx ends.
func (ds *doors) shutdown(ctx context.Context) error {
	errs := make([]error, len(ds.servers))
	var wg sync.WaitGroup
	for i, s := range ds.servers {
		wg.Go(func() {
			defer panics.Recover(ds.log, func(err error) { errs[i] = err })
			errs[i] = s.Shutdown(ctx)
		})
	}
	wg.Wait()
	ds.serving.Wait()
	return errors.Join(errs...)
}

func (ds *doors) close() {
	for _, s := range ds.servers {
		s.Close()
	}
	ds.serving.Wait()
}
