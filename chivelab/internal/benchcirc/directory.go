package benchcirc

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// documents holds the documents that a directory cache of the measurement's
// network serves. It answers a request with all documents of that kind.
type documents struct {
	Consensus  []byte `json:"consensus"`
	Certs      []byte `json:"certs"`
	Microdescs []byte `json:"microdescs"`
}

// serve answers one request.
func (d *documents) serve(s io.ReadWriter) {
	req, err := http.ReadRequest(bufio.NewReader(s))
	if err != nil {
		return // the client reports it
	}
	status, body := http.StatusOK, []byte(nil)
	switch path := req.URL.Path; {
	case strings.HasPrefix(path, "/tor/status-vote/current/consensus-microdesc"):
		body = d.Consensus
	case strings.HasPrefix(path, "/tor/keys/"):
		body = d.Certs
	case strings.HasPrefix(path, "/tor/micro/d/"):
		body = d.Microdescs
	default:
		status = http.StatusNotFound
	}
	head := fmt.Sprintf("HTTP/1.0 %d %s\r\nDate: %s\r\nContent-Length: %d\r\n\r\n", status, http.StatusText(status), time.Now().UTC().Format(http.TimeFormat), len(body))
	_, _ = s.Write(append([]byte(head), body...)) // the client reports it
}

// makeDirectory signs a consensus of the relays with an authority of its own, and
// returns it with the network that trusts this authority.
func makeDirectory(relays []description) (*documents, *netdir.Network, error) {
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			return nil, nil, fault.Wrap(fault.Local, err)
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	auth, err := netdoc.MakeAuthCert(rand.Reader, keys[0], keys[1], netip.AddrPort{}, now.Add(-24*time.Hour), now.Add(30*24*time.Hour))
	if err != nil {
		return nil, nil, err
	}
	need, err := protover.Parse("Cons=2 Desc=2-3 FlowCtrl=1 Link=4 Microdesc=2-3 Relay=2")
	if err != nil {
		return nil, nil, err
	}
	proto, err := protover.Parse(relayProtocols)
	if err != nil {
		return nil, nil, err
	}
	weights, err := netdoc.ParseParams(netdoc.Args("Wbd=0 Wbe=0 Wbg=0 Wbm=10000 Wdb=10000 Web=10000 Wed=10000 Wee=10000 Weg=10000 Wem=10000 Wgb=10000 Wgd=0 Wgg=10000 Wgm=10000 Wmb=10000 Wmd=0 Wme=0 Wmg=0 Wmm=10000"))
	if err != nil {
		return nil, nil, err
	}
	const flags = netdoc.FlagRunning | netdoc.FlagValid | netdoc.FlagV2Dir | netdoc.FlagFast | netdoc.FlagStable | netdoc.FlagGuard | netdoc.FlagExit
	c := &netdoc.Consensus{BandwidthWeights: weights, Preamble: netdoc.Preamble{
		Flavor: netdoc.FlavorMicrodesc, Method: 37, // no TAP keys
		Lifetime:  netdoc.Lifetime{ValidAfter: now.Add(-time.Minute), FreshUntil: now.Add(12 * time.Hour), ValidUntil: now.Add(36 * time.Hour)},
		VoteDelay: time.Minute, DistDelay: time.Minute,
		KnownFlags:        []string{"Authority", "Exit", "Fast", "Guard", "Running", "Stable", "V2Dir", "Valid"},
		RecommendedClient: need, RecommendedRelay: need, RequiredClient: need, RequiredRelay: need,
		Params:  netdoc.Params{{Name: "cc_alg", Value: 2}},
		Sources: []netdoc.DirSource{{Nickname: "bench", Identity: auth.Identity, Hostname: "localhost", Addr: netip.MustParseAddr("127.0.0.1"), ORPort: 1, Contact: "nobody"}},
	}}
	out := &documents{Certs: auth.Text}
	policy, err := netdoc.ParsePortPolicy(netdoc.Args("accept 1-65535"))
	if err != nil {
		return nil, nil, err
	}
	network := &netdir.Network{Name: "bench", Testing: netdir.Testing{AllowPrivateAddresses: true}}
	for i, r := range relays {
		md := netdoc.Microdesc{Ntor: r.Ntor, Ed: r.Ed, Policy4: policy}
		out.Microdescs = md.AppendMicrodesc(out.Microdescs, nil)
		c.Routers = append(c.Routers, netdoc.RouterStatus{
			Nickname: fmt.Sprintf("bench%d", i+1), RSA: r.RSA, Published: now, Addr: r.Addr.Addr(), ORPort: r.Addr.Port(),
			Flags: flags, Version: "Chive", Proto: relayProtocols, Protocols: proto, HasBandwidth: true, Bandwidth: 1000, Microdesc: md.Digest,
		})
		network.Fallbacks = append(network.Fallbacks, netdir.Fallback{RSA: r.RSA, Ed: r.Ed, ORPorts: []netip.AddrPort{r.Addr}})
	}
	slices.SortFunc(c.Routers, func(a, b netdoc.RouterStatus) int { return slices.Compare(a.RSA[:], b.RSA[:]) })
	network.Authorities = []netdir.Authority{{Nickname: "bench", V3Ident: auth.Identity, RSA: ident.RSAID(auth.Identity)}}
	c.AppendUnsigned(nil)
	if err := c.Sign(rand.Reader, auth.Identity, keys[1]); err != nil {
		return nil, nil, err
	}
	out.Consensus = c.Append(nil)
	return out, network, nil
}
