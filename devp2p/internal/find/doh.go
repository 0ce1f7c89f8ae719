package find

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"golang.org/x/net/dns/dnsmessage"
)

// DefaultEndpoints are public resolvers that answer DNS over HTTPS (RFC 8484).
var DefaultEndpoints = []string{"https://cloudflare-dns.com/dns-query", "https://dns.quad9.net/dns-query"}

// Bounds of an answer.
const (
	maxAnswer  = 64 << 10 // bytes
	maxTexts   = 32       // TXT records
	maxText    = 1 << 10  // bytes of one: an entry of a tree has 512 at most (EIP-1459); others are left out
	dnsMessage = "application/dns-message"
)

// resolver looks TXT records up by DNS over HTTPS. It is a dnsdisc.Resolver.
type resolver struct {
	client    *http.Client
	endpoints []string
	next      atomic.Uint32 // the endpoint that is asked first

	left atomic.Int64 // lookups until the walk ends
	end  func()       // ends it; set while nobody looks anything up
}

// limit has a function called after some lookups.
func (r *resolver) limit(lookups int64, end func()) {
	r.left.Store(lookups)
	r.end = end
}

// CheckResolver refuses a URL that no question is sent to. Plain HTTP is for onions and for tests on loopback.
func CheckResolver(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%q is no URL", text)
	}
	if !protected(u) && !(u.Scheme == "http" && u.Hostname() == "127.0.0.1") {
		return fmt.Errorf("%q: want https, or http to an onion", text)
	}
	return nil
}

// newResolver checks the endpoints.
func newResolver(c *http.Client, endpoints []string) (*resolver, error) {
	if c == nil {
		return nil, errors.New("find: an HTTP client is required: one through Tor")
	}
	if len(endpoints) == 0 {
		endpoints = DefaultEndpoints
	}
	for _, e := range endpoints {
		if err := CheckResolver(e); err != nil {
			return nil, fmt.Errorf("find: DNS over HTTPS: %w", err)
		}
	}
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // no resolver needs it
	return &resolver{client: &own, endpoints: endpoints}, nil
}

// LookupTXT implements dnsdisc.Resolver. If an endpoint fails, it asks the next one.
func (r *resolver) LookupTXT(ctx context.Context, domain string) ([]string, error) {
	name, err := dnsmessage.NewName(strings.TrimSuffix(domain, ".") + ".")
	if err != nil {
		return nil, fmt.Errorf("find: a name that DNS cannot have: %w", err)
	}
	q := dnsmessage.Question{Name: name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}
	query, err := (&dnsmessage.Message{Header: dnsmessage.Header{RecursionDesired: true}, Questions: []dnsmessage.Question{q}}).Pack()
	if err != nil {
		return nil, fmt.Errorf("find: a name that DNS cannot have: %w", err)
	}
	if r.left.Add(-1) == 0 {
		r.end()
	}
	first := int(r.next.Add(1))
	var errs []error
	for i := range r.endpoints {
		b, err := r.post(ctx, r.endpoints[(first+i)%len(r.endpoints)], query)
		if err == nil {
			var texts []string
			if texts, err = parseAnswer(b, q); err == nil {
				return texts, nil
			}
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("find: DNS over HTTPS: %w", errors.Join(errs...))
}

func (r *resolver) post(ctx context.Context, endpoint string, query []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(query))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", dnsMessage)
	req.Header.Set("Accept", dnsMessage)
	req.Header.Set("User-Agent", "") // says nothing about this program
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the resolver answered %s", resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("the resolver's answer has more than %d bytes", maxAnswer)
	}
	return b, err
}

// parseAnswer returns the texts of the TXT records in an answer, each with its strings
// joined. Records of other names are those that an alias leads to.
func parseAnswer(b []byte, q dnsmessage.Question) ([]string, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil {
		return nil, fmt.Errorf("the resolver's answer: %w", err)
	}
	if !h.Response || h.Truncated {
		return nil, errors.New("the resolver's answer is no whole answer")
	}
	if h.RCode != dnsmessage.RCodeSuccess {
		return nil, fmt.Errorf("the resolver says %s", strings.TrimPrefix(h.RCode.String(), "RCode"))
	}
	got, err := p.Question()
	if err != nil || got.Type != q.Type || !strings.EqualFold(got.Name.String(), q.Name.String()) {
		return nil, errors.New("the resolver answered another question")
	}
	if err := p.SkipAllQuestions(); err != nil {
		return nil, fmt.Errorf("the resolver's answer: %w", err)
	}
	var out []string
	for {
		rh, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the resolver's answer: %w", err)
		}
		if rh.Type != dnsmessage.TypeTXT {
			if err := p.SkipAnswer(); err != nil {
				return nil, fmt.Errorf("the resolver's answer: %w", err)
			}
			continue
		}
		if len(out) == maxTexts {
			return nil, fmt.Errorf("the resolver's answer has more than %d records", maxTexts)
		}
		txt, err := p.TXTResource()
		if err != nil {
			return nil, fmt.Errorf("the resolver's answer: %w", err)
		}
		if text := strings.Join(txt.TXT, ""); len(text) <= maxText {
			out = append(out, text)
		}
	}
}
