// Package madenet makes networks of any size that do not exist: relays with keys and descriptors of their own, and the consensuses
// of the last hours, signed by authorities' keys, in the files of Chive's and C tor's caches.
package madenet

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	mrand "math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// Options say what network to make.
type Options struct {
	Relays      int       // at least 20
	Authorities int       // 9 if zero
	Hours       int       // how many earlier consensuses there are, one an hour
	Now         time.Time // the last consensus became valid a little before
}

// churn is which part of the relays leaves in an hour, while others come.
const churn = 200

// identityBits is the size of an authority's identity key: smaller than a real one, which takes long to make.
const identityBits = 2048

// Net is a network that was made.
type Net struct {
	opts    Options
	auths   []auth
	relays  []made // in the order of their identities, also those that only some consensuses have
	outside int    // how many of them a consensus does not have
}

type auth struct {
	nickname string
	keys     *authority.Keys
	or, dir  netip.AddrPort
}

// maxRelays is what a consensus may have.
const maxRelays = 50_000

// New makes a network. It takes some 12 ms of a processor for each relay, nearly all of it for the RSA key, and uses all processors.
func New(ctx context.Context, o Options) (*Net, error) {
	if o.Authorities == 0 {
		o.Authorities = 9
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	n := &Net{opts: o, outside: o.outside()}
	for i := range o.Authorities {
		if err := n.addAuthority(i); err != nil {
			return nil, err
		}
	}
	n.relays = make([]made, o.Relays+n.outside)
	onion := make([]*rsa.PrivateKey, min(onionKeys, o.Relays/10))
	err := each(ctx, len(onion), func(i int) (err error) {
		onion[i], err = rsa.GenerateKey(rand.Reader, relayBits)
		return fault.Wrap(fault.Local, err)
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, len(n.relays), func(i int) error {
		rng := mrand.New(mrand.NewPCG(uint64(i), 1)) // of everything but keys
		m, err := makeRelay(rng, i, o.Now, onion[i%len(onion)])
		n.relays[i] = m
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(n.relays, func(a, b made) int { return slices.Compare(a.status.RSA[:], b.status.RSA[:]) })
	return n, nil
}

// First returns a smaller network, of relays and authorities that this one has.
func (n *Net) First(relays int) (*Net, error) {
	o := n.opts
	o.Relays = relays
	if err := o.check(); err != nil {
		return nil, err
	}
	out := &Net{opts: o, auths: n.auths, outside: o.outside()}
	if relays+out.outside > len(n.relays) {
		return nil, fault.New(fault.Config, "a network of %d relays has none of %d", n.opts.Relays, relays)
	}
	out.relays = n.relays[:relays+out.outside] // any of them: identities have no order but their own
	return out, nil
}

// outside is how many relays there are that a consensus does not have.
func (o *Options) outside() int {
	if o.Hours == 0 {
		return 0
	}
	return max(1, o.Relays/20)
}

func (o *Options) check() error {
	if o.Relays < 20 || o.Relays > maxRelays || o.Hours < 0 || o.Hours > 96 || o.Authorities < 1 || o.Authorities > 20 {
		return fault.New(fault.Config, "a network is made of 20 to %d relays, with 0 to 96 earlier consensuses, by 1 to 20 authorities", maxRelays)
	}
	return nil
}

// each runs f for 0 to n-1, on all processors.
func each(ctx context.Context, n int, f func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// addAuthority makes an authority's keys. Nobody listens at its addresses.
func (n *Net) addAuthority(i int) error {
	identity, err := rsa.GenerateKey(rand.Reader, identityBits)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	a := auth{nickname: fmt.Sprintf("made%d", i)}
	here := netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)})
	a.or, a.dir = netip.AddrPortFrom(here, 9), netip.AddrPortFrom(here, 19)
	if a.keys, err = authority.Certify(rand.Reader, identity, a.dir, n.opts.Now.Add(-30*24*time.Hour), 12); err != nil {
		return err
	}
	if err := a.keys.AddRelayIdentity(rand.Reader); err != nil {
		return err
	}
	n.auths = append(n.auths, a)
	return nil
}

func (a *auth) id() ident.RelayID {
	return ident.RelayID{RSA: netdoc.RSADigest(&a.keys.RSA.PublicKey), Ed: a.keys.Ed.Public()}
}

// Network is what Chive must know to trust the authorities.
func (n *Net) Network() *netdir.Network {
	out := &netdir.Network{Name: "made", Testing: netdir.Testing{AllowPrivateAddresses: true}}
	for i := range n.auths {
		a := &n.auths[i]
		id := a.id()
		out.Authorities = append(out.Authorities, netdir.Authority{Nickname: a.nickname, V3Ident: a.keys.Cert.Identity, RSA: id.RSA, Ed: id.Ed,
			ORPorts: []netip.AddrPort{a.or}, DirPort: a.dir})
	}
	return out
}

// Torrc has the lines by which C tor trusts the authorities.
func (n *Net) Torrc() []string {
	var out []string
	for i := range n.auths {
		a := &n.auths[i]
		out = append(out, fmt.Sprintf("DirAuthority %s orport=%d no-v2 v3ident=%s %s %s", a.nickname, a.or.Port(), a.keys.Cert.Identity, a.dir, a.id().RSA))
	}
	return out
}

// Certs has the authorities' key certificates.
func (n *Net) Certs() []byte {
	var out []byte
	for i := range n.auths {
		out = append(out, n.auths[i].keys.Cert.Text...)
	}
	return out
}

// Descriptors returns the descriptors of the relays of the last consensus.
func (n *Net) Descriptors() []*netdoc.RouterDesc {
	var out []*netdoc.RouterDesc
	for m := range n.members(0) {
		out = append(out, m.desc)
	}
	return out
}
