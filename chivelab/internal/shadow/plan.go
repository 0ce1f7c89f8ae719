package shadow

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// Programs that nodes may be.
const (
	Chive = "chive"
	Tor   = "tor"
)

// Names of hosts that are not numbered.
const (
	measuringHost = "measuring"
	serverHost    = "server"
)

// Ports of the hosts.
const (
	orPort   = 9001
	dirPort  = 9030
	echoPort = 7007
	webPort  = 8080
)

// proxyAt is where clients' programs listen.
const proxyAt = "127.0.0.1:9050"

// Bounds of an export.
const (
	maxClients = 10_000
	maxStop    = 30 * 24 * time.Hour
)

// leastAuthorities is how many must have measured a relay, so that its weight counts (dir-spec 3.8.2).
const leastAuthorities = 3

// host is one host of the simulator.
type host struct {
	name   string
	label  string // its name in the experiment's file, or what it is
	role   string
	addr   netip.Addr
	access links.Access
	keys   keys // of authorities and relays
}

// roles of hosts that no experiment has.
const (
	roleServer = "server"
	roleUser   = "user"
)

// plan is what is simulated.
type plan struct {
	*Export
	hosts []*host
	named map[string]*host // by the name in the file
}

// check refuses what cannot be simulated.
func (x *Export) check() error {
	switch {
	case x.Users < 0 || x.Users > maxClients:
		return fault.New(fault.Config, "--clients: %d is no number from 0 to %d", x.Users, maxClients)
	case x.Pause < time.Second || x.Pause > maxStop:
		return fault.New(fault.Config, "--pause: %v is below 1s, or too long", x.Pause)
	case x.Stop < 0 || x.Stop > maxStop:
		return fault.New(fault.Config, "--stop: %v is negative, or too long", x.Stop)
	}
	if x.Relays == Tor {
		for _, h := range x.File.Handshakes {
			if handshake.Named(h.Name).Set.Valid() {
				return x.File.At("handshakes", fault.New(fault.Config, "handshakes: relays of C tor know no %v", h))
			}
		}
	}
	for i, l := range x.File.Links {
		for _, d := range []links.Direction{l.Up, l.Down} {
			if key := unknownTo(d); key != "" {
				return x.File.AtLink(i, key, fault.New(fault.Config, "link %q: Shadow knows rate, delay and loss of a link, and no %s", l.Name, key))
			}
		}
	}
	return nil
}

// unknownTo returns the key of a rule that the simulator does not know.
func unknownTo(d links.Direction) string {
	r := d.Rules
	for key, there := range map[string]bool{
		"jitter": r.Jitter != "" && r.Jitter != links.Steady, "burst-to-bad": r.Burst.ToBad != 0, "burst-loss-good": r.Burst.LossGood != 0,
		"reorder": r.Reorder != 0, "queue": r.Queue != 0, "discipline": r.Discipline != "", "mtu": r.MTU != 0, "at": len(d.Steps) > 0,
	} {
		if there {
			return key
		}
	}
	return ""
}

// newPlan gives each node a host.
func newPlan(x *Export) *plan {
	p := &plan{Export: x, named: map[string]*host{}}
	count := map[string]int{}
	add := func(role string, label string, a links.Access) *host {
		h := &host{name: fmt.Sprintf("%s%d", role, count[role]), label: label, role: role, addr: address(len(p.hosts)), access: a}
		count[role]++
		p.hosts = append(p.hosts, h)
		return h
	}
	var client links.Access
	for _, n := range x.File.Nodes {
		h := add(n.Role, n.Name, x.File.Access(n.Place))
		p.named[n.Name] = h
		if h.role == experiment.RoleClient {
			h.name, client = measuringHost, h.access
		}
	}
	// What a network needs beside. These nodes are in no path of who measures.
	for count[experiment.RoleAuthority] < leastAuthorities {
		add(experiment.RoleAuthority, "added", links.Access{})
	}
	for count[experiment.RoleRelay]+count[experiment.RoleExit] < 3 {
		add(experiment.RoleRelay, "added", links.Access{})
	}
	if x.Users > 0 {
		add(roleServer, "what clients ask", links.Access{}).name = serverHost
		for range x.Users {
			add(roleUser, "client", client)
		}
	}
	return p
}

// address gives each host a /16 of its own, as relays on one path must have.
func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(11 + i/250), byte(1 + i%250), 0, 1})
}

// with returns the hosts of some roles.
func (p *plan) with(roles ...string) (out []*host) {
	for _, h := range p.hosts {
		for _, r := range roles {
			if h.role == r {
				out = append(out, h)
			}
		}
	}
	return out
}

// path are the names of the relays by which circuits are measured.
func (p *plan) path() (out []string) {
	for _, name := range p.File.Path {
		out = append(out, p.named[name].name)
	}
	return out
}

// stop is when the simulation ends: what all tasks should take, and as much again, unless the user has said.
func (p *plan) stop() time.Duration {
	if p.Stop > 0 {
		return p.Stop
	}
	var trip time.Duration // to the last relay and back
	rate := int64(shadowfile.UnboundRate)
	loss := 0.0
	at := p.named[p.client()]
	for _, name := range p.File.Path {
		next := p.named[name]
		trip += shadowfile.Latency(placeOf(at.access), placeOf(next.access)) + shadowfile.Latency(placeOf(next.access), placeOf(at.access))
		for _, d := range []links.Direction{at.access.Up, at.access.Down, next.access.Up, next.access.Down} {
			rate = min(rate, rateOf(d))
			loss = max(loss, d.Rules.Loss)
		}
		at = next
	}
	slow := 1 + 40*loss // a lost packet waits for a clock
	var sum time.Duration
	for _, t := range p.File.Tasks() {
		circuit := time.Duration(len(p.File.Path)+3) * trip
		switch t.Kind {
		case experiment.KindDownload:
			circuit += 10*trip + time.Duration(float64(p.File.Size)*8/float64(rate)*float64(time.Second))
		case experiment.KindDirectory:
			circuit += time.Second
		}
		sum += time.Duration(float64(circuit) * slow)
	}
	return min(maxStop, (loadAt + 2*sum + 2*time.Minute).Round(time.Second))
}

// client is the name of who measures.
func (p *plan) client() string {
	for _, n := range p.File.Nodes {
		if n.Role == experiment.RoleClient {
			return n.Name
		}
	}
	return "" // Parse lets no such file pass
}
