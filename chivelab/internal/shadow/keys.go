package shadow

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
)

// keys are public ones.
type keys struct {
	rsa  ident.RSAID
	auth netdir.Authority // of authorities
}

// rounds are between votes, in the simulation.
const rounds = 5 * time.Minute

// makeKeys makes a host's keys.
func (h *host) makeKeys(dir string) (err error) {
	if h.role != experiment.RoleAuthority {
		h.keys.rsa, err = shadowfile.MakeRelay(dir)
		return err
	}
	h.keys.auth, err = shadowfile.MakeAuthority(dir, h.name, netip.AddrPortFrom(h.addr, orPort), netip.AddrPortFrom(h.addr, dirPort))
	h.keys.rsa = h.keys.auth.RSA
	return err
}

// network describes the network for Chive's nodes.
func (p *plan) network() ([]byte, error) {
	n := &netdir.Network{Name: "shadow", Testing: netdir.Testing{AllowPrivateAddresses: true, EnforceDistinctSubnets: true, VotingInterval: rounds}}
	for _, h := range p.with(experiment.RoleAuthority) {
		n.Authorities = append(n.Authorities, h.keys.auth)
	}
	return netfile.Format(n)
}

// weights is the file by which authorities vote on relays: what each link can carry, in kilobytes a second.
func (p *plan) weights() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\nversion=1.0.0\nsoftware=chivelab\n=====\n", shadowfile.Begin.Unix())
	for _, h := range p.with(experiment.RoleRelay, experiment.RoleExit) {
		rate := min(rateOf(h.access.Up), rateOf(h.access.Down))
		fmt.Fprintf(&b, "node_id=$%s bw=%d nick=%s\n", h.keys.rsa, max(1, rate/8000), h.name)
	}
	return []byte(b.String())
}
