package dirserver

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/account"
)

// Response is an answer.
type Response struct {
	Status int
	Reason string
	Header []string // whole lines, without their ends
	// Parts make up the body. They are not changed: answers share them.
	Parts []*Doc
	// Made is how many bytes of them only this answer has. They count until it is sent.
	Made   int
	MaxAge time.Duration // how long it may be kept; zero: not said
}

// Short is an answer without a document.
func Short(status int, reason string) *Response { return &Response{Status: status, Reason: reason} }

// OK is an answer with a document.
func OK(body []byte, maxAge time.Duration) *Response {
	return &Response{Status: 200, Reason: "OK", Parts: []*Doc{NewDoc(body)}, MaxAge: maxAge}
}

// write sends an answer in an encoding; "" is none.
func (s *Server) write(c *paced, acct *account.Account, peer Peer, enc string, res *Response) {
	sp, length, err := newSpool(res.Parts, enc)
	if err != nil {
		s.cfg.Log.Error("directory answer: compress", "err", err)
		res, sp, length = Short(500, "Internal error"), new(spool), 0
	}
	acct.Reserve(res.Made)
	defer acct.Release(res.Made)
	sp.head = s.head(peer, res, length, enc)
	defer sp.release()
	c.begin(0)
	for {
		b, err := sp.next()
		if err != nil {
			s.cfg.Log.Error("directory answer: compress", "err", err)
		}
		if err != nil || len(b) == 0 {
			return
		}
		held := sp.holds()
		acct.Reserve(held)
		n, err := c.Write(b)
		acct.Release(held)
		s.stats.BytesOut.Add(uint64(n))
		if err != nil {
			s.cfg.Log.Debug("directory answer: write", "err", err)
			return
		}
	}
}

// head encodes the status line and the headers: those of C tor, in its order. A length below zero is not
// known: the end of the connection ends the body, as it does if there is none.
func (s *Server) head(peer Peer, res *Response, length int, enc string) []byte {
	var b bytes.Buffer
	now := s.cfg.Now().UTC()
	fmt.Fprintf(&b, "HTTP/1.0 %d %s\r\nDate: %s\r\n", res.Status, res.Reason, now.Format(http.TimeFormat))
	if len(res.Parts) > 0 && res.Status == 200 {
		b.WriteString("Content-Type: text/plain\r\n")
		if peer.Addr.IsValid() && !peer.MultiHop {
			fmt.Fprintf(&b, "X-Your-Address-Is: %s\r\n", peer.Addr)
		}
		if enc == "" {
			enc = "identity"
		}
		fmt.Fprintf(&b, "Content-Encoding: %s\r\n", enc)
		if length >= 0 {
			fmt.Fprintf(&b, "Content-Length: %d\r\n", length)
		}
		if res.MaxAge > 0 {
			fmt.Fprintf(&b, "Expires: %s\r\n", now.Add(res.MaxAge).Format(http.TimeFormat))
		}
		for _, h := range res.Header {
			fmt.Fprintf(&b, "%s\r\n", h)
		}
	}
	b.WriteString("\r\n")
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
