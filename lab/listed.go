package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/netdoc"
)

// listedPoll is the time between two looks at what clients know.
const listedPoll = 50 * time.Millisecond

// WaitListed waits until clients can use a node. A relay or an exit is in the
// consensus of Network.Client and of each client that Add has started in this process,
// with its microdescriptor. Clients in processes of their own follow within half an
// interval; C tor's, which have a schedule of their own, may take up to ten
// intervals. A bridge has a directory to serve, a client carries
// traffic, and another circuit has fetched an onion service's descriptor.
//
// If ctx ends first, the error says what is missing: an authority that has no descriptor of
// the relay, a consensus that lists it, or a client that has an older consensus.
func (nw *Network) WaitListed(ctx context.Context, n *Node) error {
	switch n.Role {
	case Bridge: // it was waited for when it started
		return nil
	case Client:
		return n.awaitTraffic(ctx)
	case OnionService:
		if n.service == nil { // a process says "ready" when it is published
			return nil
		}
		return n.service.WaitPublished(ctx)
	case Authority:
		return fault.New(fault.Config, "lab: %s is an authority, which a consensus need not list", n.Name)
	}
	for {
		behind := nw.behind(n)
		if behind == nil {
			return nil
		}
		if !wait(ctx, listedPoll) {
			return fault.New(fault.Timeout, "lab: %s is not listed: %s: %w", n.Name, nw.missing(n, behind), context.Cause(ctx))
		}
	}
}

// awaitTraffic waits until an added client carries traffic.
func (n *Node) awaitTraffic(ctx context.Context) error {
	if n.client != nil {
		return awaitClient(ctx, n.client)
	}
	for {
		c, err := socksclient.Dialer{Proxy: n.SOCKS}.DialContext(ctx, "tcp", n.network.Echo)
		if err == nil {
			return c.Close()
		}
		if !wait(ctx, listedPoll) {
			return fault.New(fault.Timeout, "lab: %s carries no traffic: %w: %w", n.Name, err, context.Cause(ctx))
		}
	}
}

// behind returns a client of this process that does not list a relay, or nil.
func (nw *Network) behind(n *Node) *chive.Client {
	if !nw.Client.Lists(n.Fingerprint) {
		return nw.Client
	}
	for _, o := range nw.Nodes() {
		if o.client != nil && o.client.Err() == nil && !o.client.Lists(n.Fingerprint) {
			return o.client
		}
	}
	return nil
}

// askTime bounds the questions to the authorities about what is missing.
const askTime = 5 * time.Second

// missing says why a client does not list a relay: it asks the authorities.
func (nw *Network) missing(n *Node, behind *chive.Client) string {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	var without []string
	var newest *netdoc.Consensus
	listed := false
	for _, a := range nw.authorities {
		if _, err := nw.ask(ctx, a.DirPort, "/tor/server/fp/"+n.Fingerprint); err != nil {
			without = append(without, fmt.Sprintf("%s (%v)", a.Nickname, err))
		}
		text, err := nw.ask(ctx, a.DirPort, "/tor/status-vote/current/consensus-microdesc")
		if err != nil {
			continue
		}
		found := false
		c, err := netdoc.ParseConsensus(text, nil, func(r *netdoc.RouterStatus) error {
			found = found || r.RSA == n.rsa
			return nil
		})
		if err == nil && (newest == nil || c.ValidAfter.After(newest.ValidAfter)) {
			newest, listed = c, found
		}
	}
	switch {
	case len(without) > 0:
		return "no descriptor of it has " + strings.Join(without, ", ")
	case newest == nil:
		return "no authority serves a consensus"
	case !listed:
		return fmt.Sprintf("the authorities have its descriptor, but their newest consensus, of %s, does not list it; they vote every %v",
			newest.ValidAfter.Format(time.TimeOnly), nw.opts.VotingInterval)
	default:
		return fmt.Sprintf("the consensus of %s lists it, and a client has that of %s, or lacks the microdescriptor",
			newest.ValidAfter.Format(time.TimeOnly), behind.Status().Directory.ValidAfter.Format(time.TimeOnly))
	}
}

// ask fetches a document from an authority's DirPort.
func (nw *Network) ask(ctx context.Context, port netip.AddrPort, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+port.String()+path, nil)
	if err != nil {
		return nil, local(err)
	}
	by := &http.Transport{DisableKeepAlives: true}
	h, err := nw.hostOf("client")
	if err != nil {
		return nil, err
	}
	if h != nil {
		by.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return h.Dial(ctx, port) }
	}
	client := &http.Client{Transport: by}
	res, err := client.Do(req)
	if err != nil {
		return nil, fault.New(fault.Network, "it does not answer: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fault.New(fault.Directory, "%s", res.Status)
	}
	return io.ReadAll(io.LimitReader(res.Body, 16<<20))
}
