package authority

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// keepVotes is how long a receiver may cache votes.
const keepVotes = time.Minute

// extra answers the requests that only an authority can answer, and handles POST.
func (a *Authority) extra(_ context.Context, peer dirserver.Peer, r *dirserver.Request) *dirserver.Response {
	if r.Method == "POST" {
		return a.post(peer, r)
	}
	if r.Path == "/tor/keys/authority" {
		return dirserver.OK(a.cfg.Keys.Cert.Text, time.Hour)
	}
	if r.Path == "/tor/server/authority" {
		return a.ownDescriptor()
	}
	if rest, ok := strings.CutPrefix(r.Path, "/tor/status-vote/next/"); ok {
		return a.next(rest)
	}
	if rest, ok := strings.CutPrefix(r.Path, "/tor/status-vote/current/"); ok && !strings.HasPrefix(rest, "consensus") {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.votesLocked(rest, true)
	}
	return nil
}

// ownDescriptor returns the authority's own descriptor as a relay, or nothing if
// it has no ORPort.
func (a *Authority) ownDescriptor() *dirserver.Response {
	k := a.cfg.Keys.RSA
	if k == nil {
		return dirserver.Short(404, "Not found")
	}
	return dirserver.Several([]*dirserver.Doc{a.docs.DescriptorOf(netdoc.RSADigest(&k.PublicKey))}, time.Hour)
}

// next answers requests about the current round.
func (a *Authority) next(path string) *dirserver.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch path {
	case "bandwidth":
		return dirserver.Several([]*dirserver.Doc{a.measured}, 30*time.Minute)
	case "consensus", "consensus-microdesc":
		return dirserver.Several([]*dirserver.Doc{a.round.textLocked(path == "consensus-microdesc")}, keepVotes)
	case "consensus-signatures":
		return dirserver.Several([]*dirserver.Doc{a.round.signaturesLocked()}, keepVotes)
	}
	return a.votesLocked(path, false)
}

// textLocked returns a consensus of the round with the signatures that have come, or
// nil if there is none. The caller holds the Authority's mu.
func (r *round) textLocked(microdesc bool) *dirserver.Doc {
	if r == nil {
		return nil
	}
	for i, c := range r.pending {
		if (c.Flavor == netdoc.FlavorMicrodesc) != microdesc {
			continue
		}
		if r.texts[i] == nil {
			r.texts[i] = dirserver.NewDoc(c.Append(nil))
		}
		return r.texts[i]
	}
	return nil
}

// signaturesLocked returns the detached signatures that have come. The caller holds the
// Authority's mu.
func (r *round) signaturesLocked() *dirserver.Doc {
	if r == nil || len(r.pending) == 0 {
		return nil
	}
	if r.detached == nil {
		r.detached = dirserver.NewDoc(netdoc.Detach(r.pending[0], r.pending[1:]...).Append(nil))
	}
	return r.detached
}

// votesLocked answers requests for votes: this authority's, or votes by identity
// or digest. The answer has each vote once, even if the request names it several
// times. By identity, they are of the current or the last round; by digest, of any.
func (a *Authority) votesLocked(path string, last bool) *dirserver.Response {
	if path == "authority" {
		path = a.me.String()
	}
	list, byDigest := strings.CutPrefix(path, "d/")
	wanted := map[[20]byte]bool{}
	for w := range strings.SplitSeq(list, "+") {
		if b, err := hex.DecodeString(w); err == nil && len(b) == 20 && len(wanted) < maxVotesAsked {
			wanted[[20]byte(b)] = true
		}
	}
	var found []*dirserver.Doc
	wants := func(of bool, id ident.RSAID, digest [20]byte) bool {
		return byDigest && wanted[digest] || !byDigest && of == last && wanted[id]
	}
	if a.round != nil {
		for id, v := range a.round.votes {
			if wants(false, id, v.Digest) {
				found = append(found, dirserver.NewDoc(v.Text))
			}
		}
	}
	for id, v := range a.last {
		if wants(true, id, v.digest) {
			doc, err := v.doc()
			if err != nil {
				a.log.Error("vote cannot be read again", "err", err)
				return dirserver.Short(500, "Internal error")
			}
			found = append(found, doc)
		}
	}
	return dirserver.Several(found, keepVotes)
}

// maxVotesAsked bounds how many votes one request may name.
const maxVotesAsked = 64

// post handles a POST.
func (a *Authority) post(peer dirserver.Peer, r *dirserver.Request) *dirserver.Response {
	switch r.Path {
	case "/tor/":
		return dirserver.Short(a.upload(peer.Addr, r.Body))
	case "/tor/post/vote":
		return a.postVotes(r.Body)
	case "/tor/post/consensus-signature":
		d, err := netdoc.ParseDetachedSignatures(r.Body)
		n := 0
		if err == nil {
			n, err = a.addSignatures(d, peer.Addr)
		}
		if errors.Is(err, errLeftOut) {
			a.log.Debug("posted signatures not used", "err", err)
			return dirserver.Short(200, oneLine(err))
		}
		if err != nil {
			a.grumble.say(slog.LevelWarn, "posted signatures refused", err)
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
	netdoc.CheckVotes(body, 1, a.known, func(v *netdoc.Vote, err error) {
		n++
		if err == nil {
			err = a.addVote(v, true)
		}
		if err != nil && first == nil {
			first = err
		}
	})
	switch {
	case errors.Is(first, errNoRound):
		a.log.Debug("posted vote not used", "err", first)
		return dirserver.Short(200, oneLine(first))
	case first != nil:
		a.grumble.say(slog.LevelWarn, "posted vote refused", first)
		return dirserver.Short(400, oneLine(first))
	case n == 0:
		return dirserver.Short(400, "Unable to parse vote")
	}
	return dirserver.Short(200, "Vote stored")
}

// oneLine makes an error's text safe for a status line.
func oneLine(err error) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, err.Error())
	return s[:min(len(s), 200)]
}
