package dirclient

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// certStore holds the authorities' key certificates. Run owns it.
type certStore struct {
	trusted map[ident.RSAID]bool
	m       map[netdoc.KeyPair]*netdoc.AuthCert
}

func newCertStore(trusted []ident.RSAID) certStore {
	s := certStore{make(map[ident.RSAID]bool), make(map[netdoc.KeyPair]*netdoc.AuthCert)}
	for _, id := range trusted {
		s.trusted[id] = true
	}
	return s
}

func (s *certStore) get(kp netdoc.KeyPair) *netdoc.AuthCert { return s.m[kp] }

// add adds the certificates of trusted authorities. It returns how many were new,
// and the first error.
func (s *certStore) add(text []byte, now time.Time) (n int, err error) {
	seen := 0
	netdoc.ParseAuthCerts(text, func(c *netdoc.AuthCert, e error) {
		seen++
		switch {
		case e == nil && !s.trusted[c.Identity]:
			e = fault.New(fault.Directory, "a certificate of an authority that is not in this network")
		case e == nil:
			if c.Replaces(s.m[c.KeyPair()]) && c.CheckTime(now) == nil {
				s.m[c.KeyPair()] = c
				n++
			}
		}
		if err == nil {
			err = e
		}
	})
	if seen == 0 && len(text) > 0 {
		err = fault.New(fault.Directory, "it contains no certificate")
	}
	return n, err
}

// list returns the certificates, in no order.
func (s *certStore) list() []*netdoc.AuthCert {
	return slices.Collect(maps.Values(s.m))
}

// prune drops expired certificates.
func (s *certStore) prune(now time.Time) {
	for kp, c := range s.m {
		if c.CheckTime(now) != nil {
			delete(s.m, kp)
		}
	}
}

// without returns the authorities without a certificate in the store that is still good.
func (s *certStore) without(trusted []ident.RSAID, now time.Time) []ident.RSAID {
	have := map[ident.RSAID]bool{}
	for kp, c := range s.m {
		have[kp.Identity] = have[kp.Identity] || c.CheckTime(now) == nil
	}
	var out []ident.RSAID
	for _, id := range trusted {
		if !have[id] {
			out = append(out, id)
		}
	}
	return out
}

// text returns all certificates, for the cache.
func (s *certStore) text() []byte {
	var b []byte
	for _, c := range s.m {
		b = append(b, c.Text...)
	}
	return b
}

// certRequest asks for certificates; wants reports those that it names.
type certRequest struct {
	*request
	wants func(netdoc.KeyPair) bool
}

// certsByIdentity returns the request for the authorities' current certificates.
func certsByIdentity(ids []ident.RSAID) certRequest {
	var words []string
	for _, id := range ids {
		words = append(words, id.String())
	}
	return certRequest{&request{path: "/tor/keys/fp/" + strings.Join(words, "+"), limit: certsLimit}, func(k netdoc.KeyPair) bool { return slices.Contains(ids, k.Identity) }}
}

// certsByKey returns the request for the certificates of given key pairs.
func certsByKey(kps []netdoc.KeyPair) certRequest {
	var words []string
	for _, kp := range kps {
		words = append(words, kp.Identity.String()+"-"+kp.Signing.String())
	}
	return certRequest{&request{path: "/tor/keys/fp-sk/" + strings.Join(words, "+"), limit: certsLimit}, func(k netdoc.KeyPair) bool { return slices.Contains(kps, k) }}
}

// fetchCerts fetches certificates and returns their text, which contains at least
// one valid certificate that was requested.
func (c *Client) fetchCerts(ctx context.Context, q Query, r certRequest) (text []byte, err error) {
	err = c.race(ctx, q, r.request, func(res *response) error {
		if res.status != http.StatusOK {
			return statusError(res)
		}
		probe := newCertStore(c.cfg.Network.V3Idents())
		_, err := probe.add(res.body, c.now())
		for k := range probe.m {
			if r.wants(k) {
				text = res.body
				return nil
			}
		}
		return fault.New(fault.Directory, "no usable certificate of those that were asked for: %w", orNone(err))
	})
	return text, err
}

func orNone(err error) error {
	if err == nil {
		return fault.New(fault.Directory, "the answer has none of them")
	}
	return err
}
