package flood

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	internal "github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
)

// identityBits is the size of the identity key: smaller than an authority's,
// which takes long to make.
const identityBits = 2048

// authorities makes victims of an authority of C tor's and one of Chive's. The
// latter is alone in a network of its own, and gets the same descriptors.
func (s *site) authorities(ctx context.Context) error {
	v, err := s.startAuthority(ctx)
	if err != nil {
		return err
	}
	stock := s.tor.Node(torAuthority)
	s.victims = append(s.victims, v, &victim{name: "C tor", node: torAuthority, role: authority,
		restart: func(ctx context.Context) error { return s.restartTor(ctx, torAuthority) },
		Peer:    Peer{RSA: stock.ID.RSA, Ed: stock.ID.Ed, OR: stock.OR, Dir: stock.DirPort}})
	return nil
}

// startAuthority runs Chive's authority and uploads the network's descriptors.
func (s *site) startAuthority(ctx context.Context) (*victim, error) {
	s.plan.Progress("starting an authority of Chive's")
	var ports [2]netip.AddrPort
	for i := range ports {
		port, err := s.tor.FreePort()
		if err != nil {
			return nil, err
		}
		ports[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	}
	dir := filepath.Join(s.dir, "authority")
	network, p, err := authorityFiles(dir, ports[0], ports[1])
	if err != nil {
		return nil, err
	}
	docs, err := learnAll(ctx, s.tor.Node("auth0").DirPort)
	if err != nil {
		return nil, err
	}
	v := &victim{name: "Chive", node: chiveAuthority, role: authority, Peer: p, restart: func(ctx context.Context) error {
		_, err := s.start(ctx, chiveAuthority, "authority", "--network", network, "--data-dir", dir, "--nickname", chiveAuthority, "--contact", "lab",
			"--orport", p.OR.String(), "--dirport", p.Dir.String(), "--testing", "--assume-reachable", fmt.Sprint("--wait-for-relays=", len(docs)),
			"--initial-voting-interval=1s", "--initial-vote-delay=250ms", "--initial-dist-delay=250ms",
			"--voting-interval=30m", "--vote-delay=2s", "--dist-delay=2s")
		return err
	}}
	if err := v.restart(ctx); err != nil {
		return nil, err
	}
	for _, d := range docs {
		if err := dirPost(ctx, p.Dir, d.Text); err != nil {
			return nil, fault.New(fault.KindOf(err), "the descriptor of %s: %w", d.Nickname, err)
		}
	}
	return v, v.awaitConsensus(ctx)
}

// authorityFiles makes keys and the network file of an authority that is alone.
func authorityFiles(dir string, orPort, dirPort netip.AddrPort) (network string, p Peer, err error) {
	identity, err := rsa.GenerateKey(rand.Reader, identityBits)
	if err != nil {
		return "", p, fault.Wrap(fault.Local, err)
	}
	keys, err := internal.Certify(rand.Reader, identity, dirPort, time.Now(), 12)
	if err != nil {
		return "", p, err
	}
	if err := keys.AddRelayIdentity(rand.Reader); err != nil {
		return "", p, err
	}
	if err := keys.Save(filepath.Join(dir, "keys")); err != nil {
		return "", p, err
	}
	id := ident.RelayID{RSA: netdoc.RSADigest(&keys.RSA.PublicKey), Ed: keys.Ed.Public()}
	text, err := netfile.Format(&netdir.Network{Name: "flood", Testing: netdir.Testing{AllowPrivateAddresses: true},
		Authorities: []netdir.Authority{{Nickname: chiveAuthority, V3Ident: keys.Cert.Identity, RSA: id.RSA, Ed: id.Ed,
			ORPorts: []netip.AddrPort{orPort}, DirPort: dirPort}}})
	if err != nil {
		return "", p, err
	}
	network = filepath.Join(dir, "network.toml")
	return network, Peer{RSA: id.RSA, Ed: id.Ed, OR: orPort, Dir: dirPort}, fault.Wrap(fault.Local, os.WriteFile(network, text, 0o600))
}
