package scale

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/chivelab/internal/madenet"
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

	chiveName, torName = "Chive", "C tor"
)

// Run measures everything that the plan has.
func Run(ctx context.Context, p Plan) (*Report, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	made, err := p.make(ctx)
	if err != nil {
		return nil, err
	}
	return run(ctx, p, made)
}

// make makes the network for caches and authorities; nil if the plan has none.
func (p *Plan) make(ctx context.Context) (*madenet.Net, error) {
	if p.Relays == 0 {
		return nil, nil
	}
	p.Progress(fmt.Sprintf("making a network of %d relays", p.Relays))
	return madenet.New(ctx, madenet.Options{Relays: p.Relays, Hours: p.Hours, Now: time.Now()})
}

// run measures one size. A report with an error is not whole.
func run(ctx context.Context, p Plan, made *madenet.Net) (*Report, error) {
	r := &Report{Links: p.Links, Circuits: p.Circuits, Idle: p.Idle, Active: p.Active}
	if made != nil {
		part, err := caches(ctx, &p, made)
		if err != nil {
			return nil, err
		}
		r.Parts = append(r.Parts, part)
	}
	err := p.inNetwork(ctx, func(_ *site, peers []peer) error { return r.links(ctx, &p, peers) })
	if err != nil {
		return nil, err
	}
	if p.Onions == 0 && made == nil {
		return r, nil
	}
	// In new processes: what a relay has had of memory for links, it has not given back yet.
	return r, p.inNetwork(ctx, func(s *site, peers []peer) error {
		if p.Onions > 0 {
			part, err := onionDirs(ctx, &p, peers)
			if err != nil {
				return err
			}
			r.Parts = append(r.Parts, part)
		}
		if made == nil {
			return nil
		}
		part, err := s.authorities(ctx, made)
		r.Parts = append(r.Parts, part)
		return err
	})
}

// inNetwork starts a network for f, and ends it.
func (p *Plan) inNetwork(ctx context.Context, f func(s *site, peers []peer) error) error {
	s := &site{plan: p}
	defer s.close()
	peers, err := s.start(ctx)
	if err != nil {
		return err
	}
	return f(s, peers)
}

// links loads both relays with links and circuits, and then once more with hostile askers beside.
func (r *Report) links(ctx context.Context, p *Plan, peers []peer) error {
	for _, to := range peers {
		m, err := measure(ctx, p, to)
		if err != nil {
			return fault.New(fault.Local, "%s: %w", to.name, err)
		}
		r.Relays = append(r.Relays, m)
	}
	if err := r.actives(ctx, p, peers); err != nil {
		return err
	}
	if p.Hostile == 0 {
		return nil
	}
	part, err := r.beside(ctx, p, peers)
	r.Parts = append(r.Parts, part)
	return err
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

// beside loads both relays again, with hostile askers beside the honest ones.
func (r *Report) beside(ctx context.Context, p *Plan, peers []peer) (Part, error) {
	var all []*figures
	for _, to := range peers {
		f := &figures{name: to.name}
		end := p.hostile(ctx, to, p.Links, f, unread, endless)
		m, err := measure(ctx, p, to)
		end()
		if err != nil {
			return Part{}, fault.New(fault.Local, "%s: %w", to.name, err)
		}
		f.must(besideHostile+"circuits refused", m.Refused, 0)
		f.must(besideHostile+"links closed by the relay", m.LinksClosed, 0)
		f.must(besideHostile+"circuits closed by the relay", m.CircuitsClosed, 0)
		f.add(besideHostile+"RSS with all, MB", float64(m.Whole.RSS)/1e6)
		all = append(all, f)
	}
	return join(fmt.Sprintf("%d links, %d circuits", p.Links, p.Circuits), all...), nil
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
	peers = []peer{{name: torName, pid: n.PID(), or: n.OR, id: n.ID}, s.chive}
	for i := range peers {
		if err := peers[i].learn(ctx, s.tor.Node("auth0").DirPort); err != nil {
			return nil, err
		}
	}
	return peers, nil
}

// guest starts Chive's relay.
func (s *site) guest(ctx context.Context, tor *ctor.Network) ([]ctor.Guest, error) {
	file, err := tor.WriteNetworkFile()
	if err != nil {
		return nil, err
	}
	s.kid, s.chive, err = startRelay(ctx, s.plan, file, filepath.Join(s.dir, "relay"))
	if err != nil {
		return nil, err
	}
	return []ctor.Guest{{Nickname: nickname, RSA: s.chive.id.RSA}}, nil
}

// startRelay runs a relay of Chive's. If it returns an error, there may be a process nevertheless.
func startRelay(ctx context.Context, p *Plan, network, dataDir string) (kid *child.Process, to peer, err error) {
	to.name = chiveName
	args := append([]string{"relay", "--network", network, "--data-dir", dataDir, "--nickname", nickname,
		"--orport", "127.0.0.1:0", "--assume-reachable", "--shutdown-wait", "-1s"}, p.RelayFlags...)
	kid, said, err := child.Start(ctx, p.Log, p.Program, args...)
	if err != nil {
		return kid, to, err
	}
	to.pid = kid.PID()
	rsa, ed, _ := strings.Cut(said["fingerprint"], " ")
	if to.id.RSA, err = ident.ParseRSAID(rsa); err == nil {
		to.id.Ed, err = ident.ParseEd25519ID(ed)
	}
	if err == nil {
		to.or, err = netip.ParseAddrPort(said["orport"])
	}
	if err != nil {
		return kid, to, fault.New(fault.Local, "chive relay says %q: %w", said, err)
	}
	return kid, to, nil
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
