package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

const (
	// maxRedirects is how many redirects a download follows.
	maxRedirects = 10
	// quiet is how long a connection may carry nothing before it counts as broken.
	quiet = 2 * time.Minute
	// maxHeader bounds the headers of an answer, in bytes.
	maxHeader = 1 << 20
)

func (g *getter) newClient() *http.Client {
	return &http.Client{
		CheckRedirect: g.redirect,
		Transport: &http.Transport{
			Proxy:       nil, // never the proxy of the environment
			DialContext: g.dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
			DisableCompression: true, // a range is one of the bytes that are sent
		},
	}
}

var errConnect = errors.New("the time for connecting is over")

// dial opens a connection that does not stay quiet for long.
func (g *getter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if g.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.ConnectTimeout, errConnect)
		defer cancel()
	}
	c, err := g.Dial(ctx, network, address)
	if errors.Is(err, errConnect) { // it says so itself
		return nil, fault.Wrap(fault.Timeout, err)
	}
	if err != nil && errors.Is(context.Cause(ctx), errConnect) {
		return nil, fault.New(fault.Timeout, "%w: %w", errConnect, err)
	}
	if err != nil {
		return nil, err
	}
	return &busy{c}, nil
}

// busy is a connection that fails when it carries nothing for too long.
type busy struct{ net.Conn }

func (c *busy) Read(b []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(quiet))
	return c.Conn.Read(b)
}

func (c *busy) Write(b []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(quiet))
	return c.Conn.Write(b)
}

// final marks an error after which another attempt cannot succeed.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// redirect checks where a server sends a download.
func (g *getter) redirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Referer") // it would tell the next server what was asked of this one
	switch {
	case len(via) > maxRedirects:
		return final{fault.New(fault.Protocol, "more than %d redirects", maxRedirects)}
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return final{fault.New(fault.Refused, "the server sends to a URL that is not http or https")}
	case req.URL.Scheme == "http" && via[len(via)-1].URL.Scheme == "https":
		return final{fault.New(fault.Refused, "the server sends from https to http, which is not encrypted: ask for that URL yourself if you want it: %s", req.URL.Redacted())}
	}
	return nil
}

// isFinal reports whether another attempt would be in vain.
func isFinal(err error) bool {
	if _, ok := errors.AsType[final](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fault.Refused) || errors.Is(err, fault.Config) || errors.Is(err, fault.Local)
}

// download is one URL on its way to a sink.
type download struct {
	*getter
	url  *url.URL
	name string // for people; empty: standard output
	sink sink
}

// sink is where a download goes.
type sink interface {
	io.Writer
	// held returns how many bytes are there, and of which version of the document.
	held() (int64, version)
	// begin throws them away: the first byte of a version follows.
	begin(version) error
}

// attempt asks for what is missing, and writes it to the sink.
func (d *download) attempt(ctx context.Context) error {
	have, of := d.sink.held()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url.String(), nil)
	if err != nil {
		return final{fault.Wrap(fault.Config, err)}
	}
	req.Header, req.Host = d.header.Clone(), d.host
	ranged := have > 0 && of.validator() != ""
	if ranged {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		req.Header.Set("If-Range", of.validator())
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return fault.Wrap(fault.Network, plain(err))
	}
	defer resp.Body.Close()
	now := versionOf(resp, withoutUser(d.url))
	switch {
	case ranged && resp.StatusCode == http.StatusPartialContent:
		var part int64
		if part, now.Total, err = of.continues(resp, have); err != nil {
			return final{err}
		}
		if err := d.copy(resp.Body, have+part, now.Total); err != nil || now.Total == have+part {
			return err
		}
		return errMore
	case ranged && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		if _, _, total, ok := contentRange(resp); ok && total == have && now.same(of) {
			return nil // everything was there
		}
		if err := d.sink.begin(version{}); err != nil {
			return err
		}
		return fault.New(fault.Protocol, "the server does not have the rest of the document")
	case resp.StatusCode < 200 || resp.StatusCode > 299 || resp.StatusCode == http.StatusPartialContent:
		return final{fault.Wrap(fault.Network, &StatusError{resp.Status})}
	default:
		now.Total = resp.ContentLength
		if err := d.sink.begin(now); err != nil {
			return err
		}
		if have > 0 {
			d.Note("the document has changed, or the server cannot send a part of it: beginning again")
		}
	}
	return d.copy(resp.Body, now.Total, now.Total)
}

// errMore says that a part came whole, and that more of the document follows, or may follow.
var errMore = errors.New("the server sent a part of what was asked for")

// copy writes the body to the sink, and checks that the document is there up to the byte
// until then; -1: up to where the server ends it. total is the document's length.
func (d *download) copy(body io.Reader, until, total int64) error {
	have, _ := d.sink.held()
	m := meter{show: d.Show, p: Progress{Name: d.name, Have: have, Total: total}}
	m.add(0)
	b := make([]byte, 64<<10)
	for {
		n, err := body.Read(b)
		if n > 0 {
			if _, err := d.sink.Write(b[:n]); err != nil {
				return final{fault.Wrap(fault.Local, err)}
			}
			m.add(n)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fault.New(fault.Network, "the connection broke after %d bytes: %w", m.p.Have, err)
		}
	}
	m.end()
	if until >= 0 && m.p.Have != until {
		return fault.New(fault.Network, "%d bytes came, of %d", m.p.Have, until)
	}
	return nil
}

// plain returns the cause of an error of http.Client, which repeats the URL.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// isHeader reports whether a header can be sent (RFC 9110, section 5).
func isHeader(name, value string) bool {
	notToken := func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	return name != "" && !strings.ContainsFunc(name, notToken) && !strings.ContainsFunc(value, control)
}

// contentRange reads the header Content-Range: the first byte of the part and the one after
// it, and the length of the whole document. first is -1 in "bytes */TOTAL", and total in
// "bytes N-M/*".
func contentRange(resp *http.Response) (first, end, total int64, ok bool) {
	s, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
	part, whole, found := strings.Cut(s, "/")
	if !ok || !found {
		return 0, 0, 0, false
	}
	number := func(s string) int64 {
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			ok = false
		}
		return int64(n)
	}
	first, total = -1, -1
	if whole != "*" {
		total = number(whole)
	}
	if part == "*" {
		return first, 0, total, ok
	}
	a, b, found := strings.Cut(part, "-")
	first = number(a)
	last := number(b)
	return first, last + 1, total, ok && found && first <= last && last < math.MaxInt64 && (total < 0 || last < total)
}
