package dirclient

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// request is a directory request: one GET on one stream (dir-spec, "standards
// compliance").
type request struct {
	path  string
	to    netip.AddrPort // the directory's ORPort; zero: no Host line
	since time.Time      // If-Modified-Since; zero: none
	diff  string         // X-Or-Diff-From-Consensus; empty: none
	limit int64          // largest body that is accepted, decoded
	// anonymous is the head of the request, if not made of the above: see Anonymous.
	anonymous []byte
}

// acceptEncoding lists the encodings that decode supports, as C tor's clients do. C tor's caches
// choose by their own order, best compression first.
const acceptEncoding = "x-tor-lzma, x-zstd, deflate, gzip, identity"

// encode writes the request as HTTP/1.0, so that the stream ends with the response,
// and with nothing that tells one of Chive's clients from another. The lines and their order
// are C tor's.
func (r *request) encode() []byte {
	if r.anonymous != nil {
		return r.anonymous
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.0\r\n", r.path)
	if r.to.IsValid() {
		fmt.Fprintf(&b, "Host: %s\r\n", host(r.to))
	}
	if !r.since.IsZero() {
		fmt.Fprintf(&b, "If-Modified-Since: %s\r\n", r.since.UTC().Format(http.TimeFormat))
	}
	fmt.Fprintf(&b, "Accept-Encoding: %s\r\n", acceptEncoding)
	if r.diff != "" {
		fmt.Fprintf(&b, "X-Or-Diff-From-Consensus: %s\r\n", r.diff)
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// response is the response to a request.
type response struct {
	status int
	reason string
	date   time.Time // the cache's clock; zero if unknown
	body   []byte    // decoded
	cache  ident.RelayID
}

// Bounds on the head of a response.
const (
	maxHead     = 16 << 10
	maxHeadLine = 4 << 10
)

// roundTrip sends the request and reads the response to its end. begun is called
// when the response's head was read. With an error, the response may have the
// beginning of the body.
func (r *request) roundTrip(stream io.ReadWriter, begun func()) (*response, error) {
	if _, err := stream.Write(r.encode()); err != nil {
		return nil, fault.New(fault.Network, "directory request: %w", err)
	}
	br := bufio.NewReaderSize(stream, maxHeadLine)
	res, header, err := readHead(br)
	if err != nil {
		return nil, err
	}
	begun()
	if res.status != http.StatusOK {
		return res, nil // the text of an error page is not needed
	}
	res.body, err = readBody(br, header, r.limit)
	return res, err
}

// readHead reads the status line and the headers.
func readHead(br *bufio.Reader) (*response, textproto.MIMEHeader, error) {
	line, err := readLine(br)
	if err != nil {
		return nil, nil, err
	}
	proto, rest, _ := strings.Cut(line, " ")
	code, reason, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if !strings.HasPrefix(proto, "HTTP/1.") || err != nil || len(code) != 3 || status < 100 {
		return nil, nil, fault.New(fault.Protocol, "directory response: malformed status line %.60q", line)
	}
	res := &response{status: status, reason: reason}
	header := textproto.MIMEHeader{}
	for total := len(line); ; {
		if line, err = readLine(br); err != nil {
			return nil, nil, err
		}
		if line == "" {
			break
		}
		if total += len(line); total > maxHead {
			return nil, nil, fault.New(fault.Resource, "directory response: headers of more than %d bytes", maxHead)
		}
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			return nil, nil, fault.New(fault.Protocol, "directory response: malformed header %.60q", line)
		}
		header.Add(k, strings.TrimSpace(v))
	}
	res.date, _ = http.ParseTime(header.Get("Date")) // zero if it cannot be parsed
	return res, header, nil
}

// readLine reads one line of the head, without its end.
func readLine(br *bufio.Reader) (string, error) {
	line, err := br.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return "", fault.New(fault.Resource, "directory response: a header of more than %d bytes", maxHeadLine)
	}
	if err != nil {
		return "", fault.New(fault.Network, "directory response: the head is incomplete: %w", err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

// readBody reads and decodes the body, which has a length or ends with the
// stream. With an error, it returns what came before.
func readBody(br *bufio.Reader, header textproto.MIMEHeader, limit int64) ([]byte, error) {
	var raw io.Reader = br
	length := int64(-1)
	if s := header.Get("Content-Length"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return nil, fault.New(fault.Protocol, "directory response: Content-Length %.20q", s)
		}
		if n > limit {
			return nil, fault.New(fault.Resource, "directory response: %d bytes, more than %d", n, limit)
		}
		length = n
		raw = io.LimitReader(br, n)
	}
	counted := &counter{r: raw, most: limit}
	body, err := decode(counted, header.Get("Content-Encoding"), limit)
	if err != nil {
		kind := fault.KindOf(err)
		if kind == fault.Unknown {
			kind = fault.Network
		}
		return body, fault.New(kind, "directory response: %w", err)
	}
	if length >= 0 && counted.n < length {
		return body, fault.New(fault.Network, "directory response: it ends after %d of %d bytes", counted.n, length)
	}
	return body, nil
}

// counter counts the bytes that were read, and ends with an error once these are more
// than most. An encoded body that is longer than what it may decode to is no honest one:
// streams, frames and blocks can be empty, and follow each other without end.
type counter struct {
	r       io.Reader
	n, most int64
}

func (c *counter) Read(p []byte) (int, error) {
	if c.n > c.most {
		return 0, fault.New(fault.Resource, "more than %d bytes before decoding", c.most)
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
