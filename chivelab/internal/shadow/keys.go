package shadow

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
)

// keys are public ones.
type keys struct {
	rsa  ident.RSAID
	auth netdir.Authority // of authorities
}

// simulated is when the simulator's clocks begin.
var simulated = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// rounds are between votes, in the simulation.
const rounds = 5 * time.Minute

// months are how long authorities' certificates are valid. They begin at the time of the export: nobody minds that, as
// only their end is looked at.
const months = 12

// makeKeys makes a host's keys in the files of C tor, which Chive reads too. They are made ahead, as all nodes must know
// those of the authorities, and the file of weights those of the relays.
func (h *host) makeKeys(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if h.role != experiment.RoleAuthority {
		k, err := rsa.GenerateKey(rand.Reader, 1024) // tor-spec 1.1
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		h.keys.rsa = netdoc.RSADigest(&k.PublicKey)
		text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
		return fault.Wrap(fault.Local, os.WriteFile(filepath.Join(dir, "secret_id_key"), text, 0o600))
	}
	or, dp := netip.AddrPortFrom(h.addr, orPort), netip.AddrPortFrom(h.addr, dirPort)
	k, err := authority.MakeKeys(dir, dp.String(), months, nil)
	if err != nil {
		return fault.New(fault.KindOf(err), "the keys of %s: %w", h.name, err)
	}
	a := &h.keys.auth
	a.Nickname, a.ORPorts, a.DirPort = h.name, []netip.AddrPort{or}, dp
	if a.V3Ident, err = ident.ParseRSAID(k.V3Ident); err != nil {
		return err
	}
	if a.RSA, err = ident.ParseRSAID(k.RSA); err != nil {
		return err
	}
	h.keys.rsa = a.RSA
	a.Ed, err = ident.ParseEd25519ID(k.Ed25519)
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
	fmt.Fprintf(&b, "%d\nversion=1.0.0\nsoftware=chivelab\n=====\n", simulated.Unix())
	for _, h := range p.with(experiment.RoleRelay, experiment.RoleExit) {
		rate := min(rateOf(h.access.Up), rateOf(h.access.Down))
		fmt.Fprintf(&b, "node_id=$%s bw=%d nick=%s\n", h.keys.rsa, max(1, rate/8000), h.name)
	}
	return []byte(b.String())
}
