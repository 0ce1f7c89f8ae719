package dirserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// How long documents may be kept by who got them, as C tor says.
const (
	keepMicrodesc  = 48 * time.Hour
	keepDescriptor = 48 * time.Hour
	keepAll        = time.Hour
	keepRobots     = 24 * time.Hour
)

// answer finds the answer to a request.
func (s *Server) answer(ctx context.Context, peer Peer, r *Request) *Response {
	if s.cfg.Extra != nil {
		if res := s.cfg.Extra(ctx, peer, r); res != nil {
			return res
		}
	}
	if r.Method != "GET" {
		return Short(400, "Nonauthoritative directory does not accept posted documents")
	}
	path := r.Path
	if rest, ok := strings.CutPrefix(path, "/tor/status-vote/current/consensus"); ok {
		return s.consensus(r, rest)
	}
	if rest, ok := strings.CutPrefix(path, "/tor/keys/"); ok {
		return s.keys(r, rest)
	}
	if rest, ok := strings.CutPrefix(path, "/tor/micro/d/"); ok {
		return s.microdescs(rest)
	}
	if rest, ok := strings.CutPrefix(path, "/tor/server/"); ok {
		return s.documents(rest, s.cfg.Docs.Descriptor, s.cfg.Docs.DescriptorOf, s.cfg.Docs.Descriptors)
	}
	if rest, ok := strings.CutPrefix(path, "/tor/extra/"); ok {
		return s.documents(rest, s.cfg.Docs.ExtraInfo, s.cfg.Docs.ExtraInfoOf, s.cfg.Docs.ExtraInfos)
	}
	if path == "/tor/robots.txt" || path == "/robots.txt" {
		return OK([]byte("User-agent: *\r\nDisallow: /\r\n"), keepRobots)
	}
	return Short(404, "Not found")
}

// maxItems bounds how many documents one request may name (C tor's clients ask
// for up to 96 descriptors and 90 microdescriptors).
const maxItems = 512

// digests reads a list of hexadecimal digests, each once.
func digests[D ident.RSAID | [20]byte](list string) []D {
	var out []D
	for w := range strings.SplitSeq(list, "+") {
		var d D
		b, err := hex.DecodeString(w)
		if err != nil || len(b) != len(d) || len(out) == maxItems {
			continue
		}
		copy(d[:], b)
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

func (s *Server) documents(path string, byDigest func([20]byte) *Doc, of func(ident.RSAID) *Doc, all func() []*Doc) *Response {
	var found []*Doc
	keep := time.Duration(0)
	switch {
	case path == "all":
		if found = all(); len(found) == 0 {
			return Short(404, "Not found")
		}
		return &Response{Status: 200, Reason: "OK", MaxAge: keepAll, Parts: found}
	case strings.HasPrefix(path, "d/"):
		for _, d := range digests[[20]byte](path[2:]) {
			found = append(found, byDigest(d))
		}
		if len(found) == 1 {
			keep = keepDescriptor
		}
	case strings.HasPrefix(path, "fp/"):
		for _, id := range digests[ident.RSAID](path[3:]) {
			found = append(found, of(id))
		}
	}
	return Several(found, keep)
}

// Several is an answer with those documents that are not nil. The list is the
// answer's from now on.
func Several(found []*Doc, keep time.Duration) *Response {
	found = slices.DeleteFunc(found, func(d *Doc) bool { return d == nil })
	res := &Response{Status: 200, Reason: "OK", MaxAge: keep, Parts: found}
	if len(res.Parts) == 0 {
		return Short(404, "Not found")
	}
	return res
}

func (s *Server) microdescs(list string) *Response {
	var found []*Doc
	seen := map[[32]byte]bool{}
	for w := range strings.SplitSeq(list, "-") {
		var d [32]byte
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(w, "="))
		if err != nil || len(b) != len(d) || seen[[32]byte(b)] || len(seen) == maxItems {
			continue
		}
		copy(d[:], b)
		seen[d] = true
		found = append(found, s.cfg.Docs.Microdesc(d))
	}
	return Several(found, keepMicrodesc)
}

// keys answers requests for the authorities' certificates.
func (s *Server) keys(r *Request, path string) *Response {
	all := s.cfg.Docs.Certs()
	newest := func(id ident.RSAID) (best *netdoc.AuthCert) {
		for _, c := range all {
			if c.Identity == id && (best == nil || c.Published.After(best.Published)) {
				best = c
			}
		}
		return best
	}
	var found []*netdoc.AuthCert
	switch {
	case path == "all":
		found = all
	case strings.HasPrefix(path, "fp/"):
		for _, id := range digests[ident.RSAID](path[3:]) {
			if c := newest(id); c != nil {
				found = append(found, c)
			}
		}
	case strings.HasPrefix(path, "sk/"):
		want := digests[ident.RSAID](path[3:])
		for _, c := range all {
			if slices.Contains(want, c.Signing) {
				found = append(found, c)
			}
		}
	case strings.HasPrefix(path, "fp-sk/"):
		want := strings.SplitN(strings.ToUpper(path[6:]), "+", maxItems)
		for _, c := range all {
			if slices.Contains(want, c.Identity.String()+"-"+c.Signing.String()) {
				found = append(found, c)
			}
		}
	default:
		return Short(400, "Bad request")
	}
	if len(found) == 0 {
		return Short(404, "Not found")
	}
	since := r.since()
	var texts []*Doc
	for _, c := range found {
		if !c.Published.Before(since) {
			texts = append(texts, NewDoc(c.Text))
		}
	}
	if len(texts) == 0 {
		return Short(304, "Not modified")
	}
	return Several(texts, time.Hour)
}

// consensus answers requests for a consensus or a diff to it: path is what
// follows ".../current/consensus".
func (s *Server) consensus(r *Request, path string) *Response {
	flavor := netdoc.FlavorNS
	if name, ok := strings.CutPrefix(path, "-"); ok {
		name, rest, slash := strings.Cut(name, "/")
		switch name {
		case "ns":
		case "microdesc":
			flavor = netdoc.FlavorMicrodesc
		default:
			return Short(404, "Not found")
		}
		if path = ""; slash {
			path = "/" + rest
		}
	}
	from, only := strings.Split(r.Header.Get("X-Or-Diff-From-Consensus"), ","), false
	if rest, ok := strings.CutPrefix(path, "/diff/"); ok {
		var hash string
		hash, path, _ = strings.Cut(rest, "/")
		from, only, path = []string{hash}, true, "/"+path
	}
	c := s.cfg.Docs.Consensus(flavor)
	if c == nil {
		return Short(404, "Not found")
	}
	if !c.ReasonablyLive(s.cfg.Now()) {
		return Short(404, "Consensus is too old or too new")
	}
	if !signedBy(c, strings.TrimPrefix(path, "/")) {
		return Short(404, "Consensus not signed by sufficient number of requested authorities")
	}
	if since := r.since(); !since.IsZero() && !c.ValidAfter.After(since) {
		return Short(304, "Not modified")
	}
	res := &Response{Status: 200, Reason: "OK", Header: []string{"Vary: X-Or-Diff-From-Consensus"}, Parts: []*Doc{c.Doc}}
	if now := s.cfg.Now(); now.Before(c.FreshUntil) {
		res.MaxAge = c.FreshUntil.Sub(now)
	}
	if d := s.diffTo(c, from); d != nil {
		res.Parts = []*Doc{d}
	} else if only {
		return Short(404, "Not found")
	}
	return res
}

// signedBy reports whether more than half of the listed authorities signed;
// their identities may be cut short. No list is no condition.
func signedBy(c *Consensus, list string) bool {
	if list == "" {
		return true
	}
	want := strings.Split(list, "+")
	have := 0
	for _, w := range want {
		b, err := hex.DecodeString(w)
		if err != nil || len(b) == 0 {
			continue
		}
		if slices.ContainsFunc(c.Signers, func(id ident.RSAID) bool { return bytes.HasPrefix(id[:], b) }) {
			have++
		}
	}
	return have >= len(want)/2+1
}
