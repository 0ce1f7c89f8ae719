package scale

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/proc"
)

// nickname is Chive's relay's, and torRelay C tor's.
const (
	nickname = "chivescale"
	torRelay = "relay0"
)

// Run measures both relays.
func Run(ctx context.Context, p Plan) (*Report, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	s := &site{plan: &p}
	defer s.close()
	peers, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Links: p.Links, Circuits: p.Circuits, Idle: p.Idle, Active: p.Active}
	for _, to := range peers {
		m, err := measure(ctx, &p, to)
		if err != nil {
			return nil, fault.New(fault.Local, "%s: %w", to.name, err)
		}
		r.Relays = append(r.Relays, m)
	}
	return r, r.actives(ctx, &p, peers)
}

// measure loads one relay.
func measure(ctx context.Context, p *Plan, to peer) (m Measured, err error) {
	m.Name = to.name
	l := newLoad(to)
	defer l.close()
	if m.Base, err = rest(ctx, to, p.Settle); err != nil {
		return m, err
	}
	p.Progress(fmt.Sprintf("%s: opening %d links", to.name, p.Links))
	before, err := proc.Of(to.pid)
	if err != nil {
		return m, err
	}
	if err := l.open(ctx, p.Links); err != nil {
		return m, err
	}
	after, err := proc.Of(to.pid)
	if err != nil {
		return m, err
	}
	m.LinkCPU = (after.CPU - before.CPU) / time.Duration(p.Links)
	if m.WithLinks, err = rest(ctx, to, p.Settle); err != nil {
		return m, err
	}
	p.Progress(fmt.Sprintf("%s: building %d circuits", to.name, p.Circuits))
	if m.Refused, err = l.build(ctx, p.Circuits); err != nil {
		return m, err
	}
	p.Progress(fmt.Sprintf("%s: watching it for %v", to.name, p.Idle))
	if _, err = rest(ctx, to, p.Settle); err != nil {
		return m, err
	}
	if m.Whole, err = rest(ctx, to, p.Idle); err != nil {
		return m, err
	}
	m.LinksClosed, m.CircuitsClosed = l.gone()
	l.close()
	m.After, err = rest(ctx, to, p.Settle)
	return m, err
}

// rest watches a relay for some time, in which nobody asks anything of it.
func rest(ctx context.Context, to peer, d time.Duration) (a AtRest, err error) {
	before, err := proc.Of(to.pid)
	if err != nil {
		return a, err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
	after, err := proc.Of(to.pid)
	if err != nil {
		return a, err
	}
	return AtRest{RSS: after.RSS, Peak: after.PeakRSS, CPU: float64(after.CPU-before.CPU) / float64(time.Millisecond) / d.Seconds()}, nil
}

// site is the network of a run.
type site struct {
	plan  *Plan
	dir   string
	tor   *ctor.Network
	kid   *child.Process
	chive peer
}

// start runs the network, and returns both relays.
func (s *site) start(ctx context.Context) (peers []peer, err error) {
	if s.dir, err = os.MkdirTemp("", "chive-scale-"); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	s.plan.Progress("starting a network of C tor with a relay of Chive's")
	s.tor, err = ctor.Start(ctx, ctor.Options{Relays: 1, Exits: 2, TorPath: s.plan.Tor, Guests: s.guest})
	if err != nil {
		return nil, err
	}
	n := s.tor.Node(torRelay)
	return []peer{{name: "C tor", pid: n.PID(), or: n.OR, id: n.ID}, s.chive}, nil
}

// guest starts Chive's relay.
func (s *site) guest(ctx context.Context, tor *ctor.Network) ([]ctor.Guest, error) {
	file, err := tor.WriteNetworkFile()
	if err != nil {
		return nil, err
	}
	args := append([]string{"relay", "--network", file, "--data-dir", filepath.Join(s.dir, "relay"), "--nickname", nickname,
		"--orport", "127.0.0.1:0", "--assume-reachable", "--shutdown-wait", "-1s"}, s.plan.RelayFlags...)
	kid, said, err := child.Start(ctx, s.plan.Log, s.plan.Program, args...)
	if err != nil {
		return nil, err
	}
	s.kid = kid
	s.chive = peer{name: "Chive", pid: kid.PID()}
	rsa, ed, _ := strings.Cut(said["fingerprint"], " ")
	if s.chive.id.RSA, err = ident.ParseRSAID(rsa); err == nil {
		s.chive.id.Ed, err = ident.ParseEd25519ID(ed)
	}
	if err == nil {
		s.chive.or, err = netip.ParseAddrPort(said["orport"])
	}
	if err != nil {
		return nil, fault.New(fault.Local, "chive relay says %q: %w", said, err)
	}
	return []ctor.Guest{{Nickname: nickname, RSA: s.chive.id.RSA}}, nil
}

func (s *site) close() {
	if s.kid != nil {
		s.kid.Stop()
	}
	if s.tor != nil {
		s.tor.Close()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}
