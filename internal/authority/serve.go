package authority

import (
	"context"
	"encoding/hex"
	"os"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// keepVotes is how long votes may be kept by who got them.
const keepVotes = time.Minute

// extra answers what only an authority knows, and takes what is posted.
func (a *Authority) extra(_ context.Context, from dirserver.Peer, r *dirserver.Request) *dirserver.Response {
	if r.Method == "POST" {
		return a.post(from, r)
	}
	if r.Path == "/tor/keys/authority" {
		return dirserver.OK(a.cfg.Keys.Cert.Text, time.Hour)
	}
	if r.Path == "/tor/server/authority" {
		if b := a.docs.DescriptorOf(netdoc.RSADigest(&a.cfg.Keys.RSA.PublicKey)); b != nil {
			return dirserver.OK(b, time.Hour)
		}
		return dirserver.Short(404, "Not found")
	}
	if rest, ok := strings.CutPrefix(r.Path, "/tor/status-vote/next/"); ok {
		return a.next(rest)
	}
	if rest, ok := strings.CutPrefix(r.Path, "/tor/status-vote/current/"); ok && !strings.HasPrefix(rest, "consensus") {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.votesLocked(rest, a.last)
	}
	return nil
}

// next answers requests about the round that is under way.
func (a *Authority) next(path string) *dirserver.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	pending := func() []*netdoc.Consensus {
		if a.round == nil {
			return nil
		}
		return a.round.pending
	}()
	switch path {
	case "bandwidth":
		if a.cfg.BandwidthFile != "" {
			if b, err := os.ReadFile(a.cfg.BandwidthFile); err == nil && len(b) <= maxBandwidthFile {
				return dirserver.OK(b, 30*time.Minute)
			}
		}
		return dirserver.Short(404, "Not found")
	case "consensus", "consensus-microdesc":
		for _, c := range pending {
			if (c.Flavor == netdoc.FlavorMicrodesc) == (path == "consensus-microdesc") {
				return dirserver.OK(c.Append(nil), keepVotes)
			}
		}
		return dirserver.Short(404, "Not found")
	case "consensus-signatures":
		if len(pending) == 0 {
			return dirserver.Short(404, "Not found")
		}
		return dirserver.OK(netdoc.Detach(pending[0], pending[1:]...).Append(nil), keepVotes)
	}
	return a.votesLocked(path, a.round)
}

// votesLocked answers requests for votes: this authority's, or by identity or
// digest.
func (a *Authority) votesLocked(path string, of *round) *dirserver.Response {
	var found []byte
	if path == "authority" {
		path = a.me.String()
	}
	list, byDigest := strings.CutPrefix(path, "d/")
	for _, w := range strings.Split(list, "+") {
		b, err := hex.DecodeString(w)
		if err != nil || len(b) != 20 {
			continue
		}
		for _, r := range []*round{a.round, a.last} {
			if r == nil || (!byDigest && r != of) {
				continue
			}
			for id, v := range r.votes {
				if (byDigest && v.Digest == [20]byte(b)) || (!byDigest && id == ident.RSAID(b)) {
					found = append(found, v.Text...)
				}
			}
		}
	}
	if len(found) == 0 {
		return dirserver.Short(404, "Not found")
	}
	return dirserver.OK(found, keepVotes)
}

// post takes what is posted.
func (a *Authority) post(from dirserver.Peer, r *dirserver.Request) *dirserver.Response {
	switch r.Path {
	case "/tor/":
		return dirserver.Short(a.upload(from.Addr, r.Body))
	case "/tor/post/vote":
		return a.postVotes(r.Body)
	case "/tor/post/consensus-signature":
		d, err := netdoc.ParseDetachedSignatures(r.Body)
		n := 0
		if err == nil {
			n, err = a.addSignatures(d)
		}
		if err != nil {
			a.log.Warn("posted signatures refused", "err", err)
			return dirserver.Short(400, oneLine(err))
		}
		a.log.Debug("signatures posted", "new", n)
		return dirserver.Short(200, "Signatures stored")
	}
	return dirserver.Short(404, "Not found")
}

func (a *Authority) postVotes(body []byte) *dirserver.Response {
	n := 0
	var first error
	netdoc.ParseVotes(body, func(v *netdoc.Vote, err error) {
		n++
		if err == nil {
			err = a.addVote(v, true)
		}
		if err != nil && first == nil {
			first = err
		}
	})
	switch {
	case first != nil:
		a.log.Warn("posted vote refused", "err", first)
		return dirserver.Short(400, oneLine(first))
	case n == 0:
		return dirserver.Short(400, "Unable to parse vote")
	}
	return dirserver.Short(200, "Vote stored")
}

// oneLine makes an error's text fit for a status line.
func oneLine(err error) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, err.Error())
	return s[:min(len(s), 200)]
}
