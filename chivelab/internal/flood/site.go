package flood

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
	"github.com/chivenet/chive/internal/lab/target"
)

// victim is an attacked node.
type victim struct {
	name string // "Chive" or "C tor"
	node string // the name of its process
	role role
	Peer
	// restart ends the process and starts it again, under the same keys and
	// ports.
	restart func(ctx context.Context) error
}

// site is the network of one run: a network of C tor's nodes, with Chive's
// victims in it or next to it.
type site struct {
	plan   *Plan
	dir    string
	target *target.Target
	tor    *ctor.Network
	kids   map[string]*child.Process   // Chive's
	pids   map[string]int              // all processes, by name
	again  func(context.Context) error // restarts Chive's relay

	entry, exit Peer // C tor's: the victims' neighbours on circuits
	victims     []*victim
}

// dosParams are the public network's consensus parameters of denial-of-service
// defences: both victims follow them.
var dosParams = map[string]int{
	"DoSCircuitCreationEnabled": 1, "DoSCircuitCreationMinConnections": 2, "DoSCircuitCreationRate": 2, "DoSCircuitCreationBurst": 60,
	"DoSConnectionEnabled": 1, "DoSConnectionMaxConcurrentCount": 50, "DoSRefuseSingleHopClientRendezvous": 1,
}

// newSite starts everything. If it fails, it leaves nothing behind.
func newSite(ctx context.Context, p *Plan, roles map[role]bool) (s *site, err error) {
	s = &site{plan: p, kids: map[string]*child.Process{}, pids: map[string]int{}}
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	if s.dir, err = os.MkdirTemp("", "chive-flood-"); err != nil {
		return s, fault.Wrap(fault.Local, err)
	}
	if s.target, err = target.Start(); err != nil {
		return s, err
	}
	p.Progress("starting a network of C tor with a relay of Chive's")
	bound := []string{fmt.Sprintf("MaxMemInQueues %d MB", p.Memory>>20)}
	quick := []string{"Schedulers Vanilla"} // for nodes that are not measured
	opts := ctor.Options{Relays: 1, Exits: 2, TorPath: p.Tor, Params: dosParams, Guests: s.startRelay, Nameserver: s.target.Nameserver(),
		Extra: map[string][]string{torRelay: bound, torAuthority: bound, "relay0": quick, "exit0": quick}}
	if s.tor, err = ctor.Start(ctx, opts); err != nil {
		return s, err
	}
	for _, n := range s.tor.Nodes {
		s.pids[n.Name] = n.PID()
	}
	dirPort := s.tor.Node("auth0").DirPort
	for name, into := range map[string]*Peer{"relay0": &s.entry, "exit0": &s.exit} {
		if *into, err = learn(ctx, dirPort, s.tor.Node(name).ID.RSA); err != nil {
			return s, err
		}
	}
	if roles[relay] {
		err = s.relays(ctx, dirPort)
	}
	if err == nil && roles[authority] {
		err = s.authorities(ctx)
	}
	return s, err
}

func (s *site) close() {
	for _, k := range s.kids {
		k.Kill()
	}
	if s.tor != nil {
		s.tor.Close()
	}
	if s.target != nil {
		s.target.Close()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// start runs a subcommand of Chive's. It first kills a running process of the
// same name.
func (s *site) start(ctx context.Context, name string, args ...string) (map[string]string, error) {
	if k := s.kids[name]; k != nil {
		if err := k.Kill(); err != nil {
			return nil, err
		}
	}
	k, said, err := child.Start(ctx, s.plan.Log, s.plan.Program, args...)
	if err != nil {
		return nil, err
	}
	s.kids[name] = k
	s.pids[name] = k.PID()
	return said, nil
}

// restartTor restarts a node of C tor's.
func (s *site) restartTor(ctx context.Context, name string) error {
	n := s.tor.Node(name)
	if err := n.Restart(ctx); err != nil {
		return err
	}
	s.pids[name] = n.PID()
	return nil
}

// The processes of the victims.
const (
	chiveRelay, torRelay         = "chivevictim", "exit1"
	chiveAuthority, torAuthority = "chiveauthority", "auth2"
)

// startRelay runs Chive's relay.
func (s *site) startRelay(ctx context.Context, tor *ctor.Network) ([]ctor.Guest, error) {
	file, err := tor.WriteNetworkFile()
	if err != nil {
		return nil, err
	}
	said, err := s.runRelay(ctx, file, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.again = func(ctx context.Context) error {
		_, err := s.runRelay(ctx, file, said["orport"])
		return err
	}
	rsa, _, _ := strings.Cut(said["fingerprint"], " ")
	id, err := ident.ParseRSAID(rsa)
	if err != nil {
		return nil, fault.New(fault.Local, "chive relay says %q: %w", said["fingerprint"], err)
	}
	return []ctor.Guest{{Nickname: chiveRelay, RSA: id}}, nil
}

// runRelay runs "chive relay", as an exit.
func (s *site) runRelay(ctx context.Context, network, listen string) (map[string]string, error) {
	return s.start(ctx, chiveRelay, append([]string{"relay", "--network", network, "--data-dir", filepath.Join(s.dir, "relay"), "--nickname", chiveRelay,
		"--orport", listen, "--assume-reachable", "--shutdown-wait", "-1s", "--max-memory", fmt.Sprint(s.plan.Memory),
		"--exit-private", "--exit-policy", "accept *:*", "--nameserver", s.target.Nameserver().String()}, s.plan.RelayFlags...)...)
}

// relays makes victims of the two relays, after they have a consensus, because
// its parameters configure their defences.
func (s *site) relays(ctx context.Context, dirPort netip.AddrPort) error {
	guests := map[string]ident.RSAID{torRelay: s.tor.Node(torRelay).ID.RSA}
	all, err := learnAll(ctx, dirPort)
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Nickname == chiveRelay {
			guests[chiveRelay] = d.RSA
		}
	}
	torAgain := func(ctx context.Context) error { return s.restartTor(ctx, torRelay) }
	for _, v := range []*victim{{name: "Chive", node: chiveRelay, restart: s.again}, {name: "C tor", node: torRelay, restart: torAgain}} {
		v.role = relay
		if v.Peer, err = learn(ctx, dirPort, guests[v.node]); err != nil {
			return err
		}
		if err := v.awaitConsensus(ctx); err != nil {
			return err
		}
		s.victims = append(s.victims, v)
	}
	return nil
}

// fresh restarts a victim, so that earlier floods have no effect.
func (s *site) fresh(ctx context.Context, v *victim) error {
	if err := v.restart(ctx); err != nil {
		return err
	}
	return v.awaitConsensus(ctx)
}

// dead lists the processes that have ended.
func (s *site) dead() []string {
	var out []string
	for name, pid := range s.pids {
		if _, err := proc.Of(pid); err != nil {
			out = append(out, name)
		}
	}
	return out
}

// endpoint returns the address of a service of the target.
func (s *site) endpoint(of target.Service) netip.AddrPort {
	return netip.MustParseAddrPort(s.target.Addr(of))
}

// user returns an honest client of a victim.
func (s *site) user(v *victim) user {
	if v.role == authority {
		return newAuthUser(&v.Peer)
	}
	return newRelayUser(&v.Peer, &s.exit, s.endpoint(target.Echo), s.endpoint(target.Source))
}

// order returns the order for an attacker. number selects addresses that no
// attacker has used before, because the defences would remember them.
func (s *site) order(f *flood, v *victim, number, sources int, d time.Duration) Order {
	return Order{Flood: f.name, Victim: v.Peer, Entry: s.entry, Exit: s.exit, Source: s.endpoint(target.Source), Sources: addresses(number, sources), Time: d}
}

// maxSources is how many addresses an attack may come from.
const maxSources = 250

// addresses returns n addresses of loopback, different for each number.
func addresses(number, n int) []netip.Addr {
	var out []netip.Addr
	for i := range n {
		out = append(out, netip.AddrFrom4([4]byte{127, byte(20 + number/200), byte(number % 200), byte(1 + i)}))
	}
	return out
}
