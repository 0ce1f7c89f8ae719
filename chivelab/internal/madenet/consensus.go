package madenet

import (
	"crypto/rand"
	"crypto/sha3"
	"encoding/hex"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// age is how long ago the last consensus became valid: long enough that nobody's clock is before it, and short enough that
// nobody looks for the next one during a measurement.
const age = 2 * time.Minute

// Lifetime returns when the consensus of some hours ago is valid.
func (n *Net) Lifetime(ago int) netdoc.Lifetime {
	from := n.opts.Now.UTC().Truncate(time.Second).Add(-age - time.Duration(ago)*time.Hour)
	return netdoc.Lifetime{ValidAfter: from, FreshUntil: from.Add(time.Hour), ValidUntil: from.Add(3 * time.Hour)}
}

// Renew makes the last consensus one that became valid a little before now: to make a network takes long.
func (n *Net) Renew(now time.Time) { n.opts.Now = now }

// Consensus makes the consensus of some hours ago, in a flavor, and signs it by all authorities.
func (n *Net) Consensus(flavor netdoc.Flavor, ago int) ([]byte, error) {
	p, err := n.preamble(flavor, ago)
	if err != nil {
		return nil, err
	}
	c := &netdoc.Consensus{Preamble: p}
	if c.BandwidthWeights, err = netdoc.ParseParams(netdoc.Args(weights)); err != nil {
		return nil, err
	}
	for m := range n.members(ago) {
		rs := m.status
		if flavor != netdoc.FlavorMicrodesc {
			rs.Policy = m.desc.Policy.Summarize(false)
		}
		c.Routers = append(c.Routers, rs)
	}
	c.AppendUnsigned(nil)
	for i := range n.auths {
		if err := c.Sign(rand.Reader, n.auths[i].keys.Cert.Identity, n.auths[i].keys.Signing); err != nil {
			return nil, err
		}
	}
	return c.Append(nil), nil
}

// weights are those of the public network of 2026-07-27.
const weights = "Wbd=817 Wbe=0 Wbg=4040 Wbm=10000 Wdb=10000 Web=10000 Wed=8366 Wee=10000 Weg=8366 Wem=10000 Wgb=10000 Wgd=817 Wgg=5960 Wgm=5960 Wmb=10000 Wmd=817 Wme=0 Wmg=4040 Wmm=10000"

func (n *Net) preamble(flavor netdoc.Flavor, ago int) (netdoc.Preamble, error) {
	need, err := protover.Parse("Cons=2 Desc=2 FlowCtrl=1 Link=4 Microdesc=2 Relay=2")
	if err != nil {
		return netdoc.Preamble{}, err
	}
	params, err := netdoc.ParseParams(netdoc.Args("cc_alg=2 publish-dummy-tap-key=0"))
	if err != nil {
		return netdoc.Preamble{}, err
	}
	p := netdoc.Preamble{
		Flavor: flavor, Method: netdoc.NoTAPMethod, Lifetime: n.Lifetime(ago), VoteDelay: 5 * time.Minute, DistDelay: 5 * time.Minute,
		KnownFlags:        strings.Fields("Authority BadExit Exit Fast Guard HSDir Running Stable StaleDesc V2Dir Valid"),
		RecommendedClient: need, RecommendedRelay: need, RequiredClient: need, RequiredRelay: need, Params: params,
	}
	for i := range n.auths {
		a := &n.auths[i]
		p.Sources = append(p.Sources, netdoc.DirSource{Nickname: a.nickname, Identity: a.keys.Cert.Identity, Hostname: a.dir.Addr().String(), Addr: a.dir.Addr(),
			DirPort: a.dir.Port(), ORPort: a.or.Port(), Contact: "nobody"})
	}
	sortSources(p.Sources)
	return p, nil
}

// hexSHA3 is a digest as C tor's cache names it.
func hexSHA3(b []byte) string {
	sum := sha3.Sum256(b)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// SHA3Signed returns the digest by which a client names a consensus that it has.
func SHA3Signed(consensus []byte) (string, error) {
	sum, err := netdoc.SHA3Signed(consensus)
	if err != nil {
		return "", fault.Wrap(fault.Local, err)
	}
	return strings.ToUpper(hex.EncodeToString(sum[:])), nil
}
