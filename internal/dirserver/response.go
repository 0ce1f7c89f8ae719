package dirserver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Response is an answer.
type Response struct {
	Status int
	Reason string
	Header []string // whole lines, without their ends
	// Parts make up the body. A body of one Doc is compressed once.
	Parts  []*Doc
	MaxAge time.Duration // how long it may be kept; zero: not said
}

// Short is an answer without a document.
func Short(status int, reason string) *Response { return &Response{Status: status, Reason: reason} }

// OK is an answer with a document.
func OK(body []byte, maxAge time.Duration) *Response {
	return &Response{Status: 200, Reason: "OK", Parts: []*Doc{NewDoc(body)}, MaxAge: maxAge}
}

// smallAnswer goes out whatever the rate; it is no larger than refusing is.
const smallAnswer = 1 << 10

// piece is how much is written before the time for it begins anew.
const piece = 64 << 10

// write sends an answer.
func (s *Server) write(c io.Writer, touch func(), peer Peer, r *Request, res *Response) {
	var body []byte
	enc := ""
	if len(res.Parts) > 0 {
		enc = chooseEncoding(r)
		var err error
		if len(res.Parts) == 1 {
			body, err = res.Parts[0].encoded(enc)
		} else {
			var all bytes.Buffer
			for _, p := range res.Parts {
				all.Write(p.body)
			}
			body, err = encode(all.Bytes(), enc)
		}
		if err != nil {
			s.cfg.Log.Error("directory answer: compress", "err", err)
			res, body, enc = Short(500, "Internal error"), nil, ""
		}
	}
	if len(body) > smallAnswer && !s.rate.take(int64(len(body)), s.cfg.Now()) {
		s.stats.Refused.Add(1)
		res, body, enc = Short(503, "Directory busy, try again later"), nil, ""
	}
	out := s.head(peer, res, len(body), enc)
	if len(body) <= piece {
		out, body = append(out, body...), nil
	}
	for {
		touch()
		n, err := c.Write(out)
		s.stats.BytesOut.Add(uint64(n))
		if err != nil || len(body) == 0 {
			if err != nil {
				s.cfg.Log.Debug("directory answer: write", "err", err)
			}
			return
		}
		out = body[:min(piece, len(body))]
		body = body[len(out):]
	}
}

// head encodes the status line and the headers.
func (s *Server) head(peer Peer, res *Response, length int, enc string) []byte {
	var b bytes.Buffer
	now := s.cfg.Now().UTC()
	fmt.Fprintf(&b, "HTTP/1.0 %d %s\r\nDate: %s\r\n", res.Status, res.Reason, now.Format(http.TimeFormat))
	if peer.Addr.IsValid() && !peer.MultiHop {
		fmt.Fprintf(&b, "X-Your-Address-Is: %s\r\n", peer.Addr)
	}
	for _, h := range res.Header {
		fmt.Fprintf(&b, "%s\r\n", h)
	}
	if len(res.Parts) > 0 && res.Status == 200 {
		if enc == "" {
			enc = "identity"
		}
		fmt.Fprintf(&b, "Content-Type: text/plain\r\nContent-Encoding: %s\r\n", enc)
		if res.MaxAge > 0 {
			fmt.Fprintf(&b, "Expires: %s\r\n", now.Add(res.MaxAge).Format(http.TimeFormat))
		}
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\nConnection: close\r\n\r\n", length)
	return b.Bytes()
}

// chooseEncoding returns the best encoding that the client understands; ""
// for none.
func chooseEncoding(r *Request) string {
	accepted := map[string]bool{}
	for _, line := range r.Header.Values("Accept-Encoding") {
		for _, w := range strings.Split(line, ",") {
			name, weight, _ := strings.Cut(strings.TrimSpace(w), ";")
			accepted[strings.ToLower(strings.TrimSpace(name))] = strings.ReplaceAll(weight, " ", "") != "q=0"
		}
	}
	for _, e := range []string{"x-zstd", "gzip", "deflate"} {
		if accepted[e] {
			return e
		}
	}
	if r.zlib {
		return "deflate"
	}
	return ""
}
