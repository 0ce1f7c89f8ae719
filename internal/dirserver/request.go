package dirserver

import (
	"bufio"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
)

// Request is one request.
type Request struct {
	Method string // GET or POST
	Path   string // without ".z" and without a host
	Header textproto.MIMEHeader
	Body   []byte
	zlib   bool // the path ended in ".z": the client understands deflate
}

// errBusy says that no more uploads can be held.
var errBusy = fault.New(fault.Resource, "directory request: too much is uploaded at the same time")

// Bounds on the head of a request. A path may name some hundred documents.
const (
	maxHead  = 50000 // as C tor
	maxLines = 64
)

// counter is told what a request makes its reader hold.
type counter interface {
	// head hears of n bytes of the head that have come.
	head(n int)
	// body asks whether there is room for n bytes of the body, which have come
	// but for half of them at most.
	body(n int) bool
}

// intake is the counter of a visit. What it counts it gives back when it is
// closed, or the visit ends.
type intake struct {
	visit *visit
	acct  *account.Account // the request's; may be nil
	heads int
	up    *account.Account // the upload's; nil: there is none
}

func (in *intake) head(n int) {
	in.heads += n
	in.acct.Reserve(n)
}

func (in *intake) body(n int) bool {
	if !in.visit.hold(n) {
		return false
	}
	if in.up == nil {
		in.up = in.acct.Open(account.Upload, nil) // the request is evicted with it
	}
	return in.up.Try(n) == nil
}

func (in *intake) close() {
	in.up.Close()
	in.acct.Release(in.heads)
}

// meter counts what is read as long as count is set.
type meter struct {
	io.Reader
	count func(n int)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.count != nil {
		m.count(n)
	}
	return n, err
}

// readRequest reads one request of HTTP/1.0 or 1.1. What it holds of it grows
// as that comes, whatever the head announces, and count agrees; errBusy says
// that it did not.
func readRequest(r io.Reader, maxUpload func(path string) int, count counter) (*Request, error) {
	m := &meter{r, count.head}
	head := &io.LimitedReader{R: m, N: maxHead}
	br := bufio.NewReader(head)
	line, err := readLine(br, head)
	if err != nil {
		return nil, err
	}
	req, err := parseRequestLine(line)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		if line, err = readLine(br, head); err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		k, v, ok := strings.Cut(line, ":")
		if !ok || n == maxLines || strings.ContainsAny(k, " \t") {
			return nil, fault.New(fault.Protocol, "directory request: malformed or too many headers")
		}
		req.Header.Add(k, strings.TrimSpace(v))
	}
	if req.Method != "POST" {
		return req, nil
	}
	n, err := strconv.Atoi(req.Header.Get("Content-Length"))
	if err != nil || n < 0 {
		return nil, fault.New(fault.Protocol, "directory request: the Content-Length is no number")
	}
	if limit := maxUpload(req.Path); n > limit {
		return nil, fault.New(fault.Resource, "directory request: a body of %d bytes, over %d", n, limit)
	}
	m.count = nil
	head.N = int64(n) // what br holds already is part of it, so this is enough
	req.Body, err = readBody(br, n, count)
	return req, err
}

// firstBody is what is made room for before anything of a body has come.
const firstBody = 4 << 10

// readBody reads a body of n bytes. Room for it at most doubles what has come.
func readBody(r io.Reader, n int, count counter) ([]byte, error) {
	var body []byte
	for len(body) < n {
		if len(body) == cap(body) {
			room := min(n, max(2*cap(body), firstBody))
			if !count.body(room - cap(body)) {
				return nil, errBusy
			}
			body = append(make([]byte, 0, room), body...)
		}
		k, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+k]
		if err != nil && len(body) < n {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fault.New(fault.Network, "directory request: body: %w", err)
		}
	}
	return body, nil
}

// readLine reads a line of the head, without its end.
func readLine(br *bufio.Reader, head *io.LimitedReader) (string, error) {
	line, err := br.ReadString('\n')
	if err != nil && head.N <= 0 {
		return "", fault.New(fault.Resource, "directory request: a head of more than %d bytes", maxHead)
	}
	if err != nil {
		return "", fault.New(fault.Network, "directory request: the head does not end: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// parseRequestLine reads "GET /tor/... HTTP/1.0"; the path may be a URL, as
// proxies get it. Its errors, which are logged, have no text of the peer's: that may
// name what somebody else's client asked for.
func parseRequestLine(line string) (*Request, error) {
	method, rest, _ := strings.Cut(line, " ")
	path, proto, ok := strings.Cut(rest, " ")
	if !ok || !strings.HasPrefix(proto, "HTTP/1.") || (method != "GET" && method != "POST") {
		return nil, fault.New(fault.Protocol, "directory request: malformed request line")
	}
	if url, ok := strings.CutPrefix(path, "http://"); ok {
		i := strings.IndexByte(url, '/')
		if i < 0 {
			return nil, fault.New(fault.Protocol, "directory request: no path in the request line")
		}
		path = url[i:]
	}
	if !strings.HasPrefix(path, "/") {
		return nil, fault.New(fault.Protocol, "directory request: no path in the request line")
	}
	r := &Request{Method: method, Header: textproto.MIMEHeader{}}
	r.Path, r.zlib = strings.CutSuffix(path, ".z")
	return r, nil
}

// since returns If-Modified-Since, or zero.
func (r *Request) since() time.Time {
	t, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	if err != nil {
		return time.Time{}
	}
	return t
}
