package appearance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// BridgePlan says whose clients of bridges to compare: of one behind obfs4, and of one that is dead.
type BridgePlan struct {
	Tor      string // the program of the authorities; empty: "tor" in PATH
	Proxy    string // obfs4proxy
	Subjects [2]Subject
	Clients  int           // of each subject and each bridge
	Idle     time.Duration // with the bridge behind obfs4
	Dead     time.Duration // with the dead one
	Log      *slog.Logger
}

// bridgeLayout has one bridge, which is behind obfs4.
var bridgeLayout = layout{relays: recording.relays, exits: recording.exits, bridges: 1}

// proxied is what was seen of a client that has one bridge.
type proxied struct {
	subject string
	dead    bool
	conns   []*conn
	marks   []mark
}

// Bridges lets clients of both programs use a bridge behind obfs4, and others one that ends each connection at once, and compares what a
// wire shows of them.
func Bridges(ctx context.Context, p BridgePlan) (rows []Row, err error) {
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	nw, err := startNetwork(ctx, p.Tor, bridgeLayout, p.Log)
	if err != nil {
		return nil, err
	}
	closed := sync.OnceValue(nw.close)
	defer func() { err = errors.Join(err, closed()) }()
	good, outside, stop, err := nw.obfs4(ctx, p.Proxy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var clients []*client
	var graves []*grave
	for range p.Clients {
		for i := range p.Subjects {
			for _, dead := range []bool{false, true} {
				s, g := p.Subjects[i], (*grave)(nil)
				lines := []string{"UseBridges 1", "ClientTransportPlugin obfs4 exec " + p.Proxy, good}
				if dead {
					if g, err = newGrave(); err != nil {
						return nil, err
					}
					defer g.close()
					lines = []string{"UseBridges 1", fmt.Sprintf("Bridge %s %s", g.addr(), strings.Repeat("A1", 20))}
				}
				s.Torrc = append(slices.Clone(s.Torrc), lines...)
				c, err := nw.newClient(len(clients), &s, alone)
				if err != nil {
					return nil, err
				}
				clients, graves = append(clients, c), append(graves, g)
			}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(panics.Contain(p.Log, func(err error) { errs[i] = err }, func() {
			if graves[i] != nil {
				errs[i] = c.knock(ctx, nw, p.Dead)
			} else {
				errs[i] = c.behind(ctx, nw, p.Idle)
			}
			if errs[i] != nil {
				cancel()
			}
		}))
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	outside.close()
	nw.rec.mu.Lock()
	defer nw.rec.mu.Unlock()
	var seen []*proxied
	for i, c := range clients {
		x := &proxied{subject: c.subject.Name, dead: graves[i] != nil, marks: c.marks}
		if x.dead {
			x.conns = graves[i].seen()
		}
		for _, k := range nw.rec.conns {
			if k.client == c && k.relay == outside.relay {
				x.conns = append(x.conns, k)
			}
		}
		seen = append(seen, x)
	}
	return compareProxied(seen, p.Subjects[0].Name, p.Subjects[1].Name), nil
}

// obfs4 starts obfs4proxy before the bridge, and a recorder before that. It returns the line for clients.
func (nw *network) obfs4(ctx context.Context, proxy string) (bridge string, outside *front, stop func() error, err error) {
	at := nw.layout.listed()
	port, err := nw.tor.FreePort()
	if err != nil {
		return "", nil, nil, err
	}
	behind := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String()
	state := filepath.Join(nw.tor.Dir, "obfs4")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", nil, nil, fault.Wrap(fault.Local, err)
	}
	cmd := exec.Command(proxy)
	cmd.Env = append(os.Environ(), "TOR_PT_MANAGED_TRANSPORT_VER=1", "TOR_PT_STATE_LOCATION="+state, "TOR_PT_SERVER_TRANSPORTS=obfs4",
		"TOR_PT_SERVER_BINDADDR=obfs4-"+behind, "TOR_PT_ORPORT="+nw.fronts[at].addr().String())
	p, said, err := child.Run(ctx, nil, cmd, func(line string) bool { return line == "SMETHODS DONE" })
	if err != nil {
		return "", nil, nil, err
	}
	_, args, ok := strings.Cut(said["SMETHOD"], " ARGS:")
	if !ok {
		return "", nil, nil, errors.Join(fault.New(fault.Local, "obfs4proxy says no arguments: %q", said), p.Stop())
	}
	outside, err = newFront(nw.rec, at+1, "127.0.0.1:0", behind, 0)
	if err != nil {
		return "", nil, nil, errors.Join(err, p.Stop())
	}
	outside.raw = true
	bridge = fmt.Sprintf("Bridge obfs4 %s %s %s", outside.addr(), nw.relays[at].Target().RSA, strings.ReplaceAll(args, ",", " "))
	return bridge, outside, func() error { outside.close(); return p.Stop() }, nil
}

// behind is the script of a client whose bridge is behind obfs4.
func (c *client) behind(ctx context.Context, nw *network, idle time.Duration) error {
	ctl, err := c.settle(ctx, nw, idle)
	if err != nil {
		return err
	}
	for range 3 {
		if err := c.ping(ctx, nw); err != nil {
			return err
		}
	}
	if err := ctl.Close(); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	return c.again(ctx, nw)
}

// knock is the script of a client whose bridge is dead.
func (c *client) knock(ctx context.Context, nw *network, d time.Duration) error {
	if err := pause(ctx, rand.N(time.Second)); err != nil {
		return err
	}
	c.mark(markStart)
	ctl, err := c.launch(ctx, nw)
	if err != nil {
		return err
	}
	if err := pause(ctx, d); err != nil {
		return err
	}
	c.mark(markEnd)
	return errors.Join(fault.Wrap(fault.Local, ctl.Close()), c.proc.Stop())
}

// grave is a bridge that resets each connection once something was sent.
type grave struct {
	ln    net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns []*conn // guarded by mu
}

func newGrave() (*grave, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Local, "a dead bridge's port: %w", err)
	}
	g := &grave{ln: ln}
	g.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // closed
			}
			g.mu.Lock()
			g.conns = append(g.conns, &conn{opened: time.Now()})
			g.mu.Unlock()
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	})
	return g, nil
}

func (g *grave) addr() netip.AddrPort { return netaddr.OfPort(g.ln.Addr()) }

func (g *grave) close() {
	g.ln.Close()
	g.wg.Wait()
}

func (g *grave) seen() []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.conns)
}
