package fte

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/panics"
)

// requestCost is the memory of a request without its body and its connection, in bytes:
// its header.
const requestCost = HTTPHeader

// httpRequest is one request that the server handles.
type httpRequest struct {
	r    *http.Request
	rc   *http.ResponseController
	from *account.Account // of its address
	mem  *account.Account
	gone atomic.Bool // it was evicted
	cut  atomic.Bool // the client ended in the middle of the body

	life   context.Context // of the decoy's answer: the client's end does not end it at once
	cancel context.CancelFunc
}

// receive counts a request. The caller must call done.
func (s *HTTPServer) receive(w http.ResponseWriter, r *http.Request) *httpRequest {
	ctx, cancel := context.WithCancel(r.Context()) // the decoy may ignore the end of the client's connection
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	q := &httpRequest{r: r.WithContext(ctx), rc: http.NewResponseController(w), life: life, cancel: func() { cancel(); end() }}
	q.from = s.mem.Address(q.address())
	q.mem = q.from.Open(account.Request, func(error) {
		q.gone.Store(true)
		s.Stats.Evicted.Add(1)
		q.rc.SetReadDeadline(past)
		q.rc.SetWriteDeadline(past)
		q.cancel()
	})
	q.mem.Reserve(requestCost)
	return q
}

// address returns the address from which the request came, or the zero value.
func (q *httpRequest) address() netip.Addr {
	at, err := netip.ParseAddrPort(q.r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// done forgets the request. The server writes its last bytes after this.
func (q *httpRequest) done() {
	q.write()
	q.cancel()
	q.mem.Close()
	q.from.Close()
}

// read extends the deadline for the next bytes read, and write the deadline for the next
// bytes written. If a deadline cannot be set, the server's own timeouts apply.
func (q *httpRequest) read()  { q.extend(q.rc.SetReadDeadline) }
func (q *httpRequest) write() { q.extend(q.rc.SetWriteDeadline) }

func (q *httpRequest) extend(deadline func(time.Time) error) {
	deadline(time.Now().Add(HTTPIdle))
	if q.gone.Load() {
		deadline(past)
	}
}

// settled marks that nothing more will be read from the request.
func (q *httpRequest) settled() {
	if !q.gone.Load() {
		q.rc.SetReadDeadline(time.Time{})
	}
}

// sessionID returns the session that a request names, if the name has the form of a
// session's.
func sessionID(r *http.Request) (id string, ok bool) {
	name := r.URL.Path
	if i := len(name) - 2*sessionLen; i > 0 {
		name = name[i:]
	}
	b, err := hex.DecodeString(name)
	return string(b), err == nil && len(b) == sessionLen && ours(r)
}

// ours reports whether a client of ours could have sent a request. The site answers all
// others as it likes, without a byte of their bodies read here: to read one may send "100
// Continue" (RFC 9110, section 10.1.1), and a site may refuse a request without it.
func ours(r *http.Request) bool {
	if r.Method != http.MethodPost || r.ContentLength < 0 || len(r.TransferEncoding) > 0 || r.Trailer != nil || r.URL.RawQuery != "" || r.URL.ForceQuery {
		return false
	}
	for _, name := range []string{"Expect", "Upgrade", "Http2-Settings", "Te", "Trailer", "Content-Encoding", "Range"} {
		if r.Header[name] != nil {
			return false
		}
	}
	return true
}

// body reads a body of at most the given length before the deadline, then removes the
// deadline. If it fails, it returns the bytes that it has read; r.Body no longer has
// them.
func (q *httpRequest) body(most int) (b []byte, ok bool) {
	if q.r.ContentLength > int64(most) {
		return nil, false
	}
	for {
		if len(b) == cap(b) {
			next := make([]byte, len(b), min(max(2*cap(b), 512), most+1))
			q.mem.Reserve(cap(next) - cap(b))
			copy(next, b)
			b = next
		}
		n, err := q.r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > most || err != nil && err != io.EOF:
			q.cut.Store(errors.Is(err, io.ErrUnexpectedEOF))
			return b, false
		case err == io.EOF:
			q.settled()
			return b, true
		}
	}
}

// afterEnd is how long the decoy may take for its answer after the client has ended its side of
// the connection.
const afterEnd = 10 * time.Second

// refuse gives a request to the decoy. read holds the bytes of its body that were read
// already. The decoy may take any time, as long as the request and the answer make
// progress.
//
// A client that half-closes its connection after a request gets the answer, as it gets a page from
// nginx or from net/http. Its end looks the same as that of a client that has gone, and
// net/http ends the request's context then, so that a proxy would answer with a 502 of its own, which
// tells it from every site. So the decoy's context lives a while longer.
func (s *HTTPServer) refuse(w http.ResponseWriter, q *httpRequest, read []byte) {
	if q.r.ContentLength == 0 {
		q.settled()
	} else {
		q.r.Body = &movingBody{Reader: io.MultiReader(bytes.NewReader(read), q.r.Body), Closer: q.r.Body, q: q}
	}
	s.Stats.Decoyed.Add(1)
	defer context.AfterFunc(q.r.Context(), panics.Contain(nil, nil, func() {
		select {
		case <-time.After(afterEnd):
			q.cancel()
		case <-q.life.Done():
		}
	}))()
	s.Decoy.ServeHTTP(&movingWriter{w, q, false}, q.r.WithContext(q.life))
}

// movingBody is a body that must make progress: each piece must arrive in time.
type movingBody struct {
	io.Reader
	io.Closer
	q *httpRequest
}

func (b *movingBody) Read(p []byte) (int, error) {
	b.q.read()
	n, err := b.Reader.Read(p)
	switch {
	case err == io.EOF:
		b.q.settled()
	case errors.Is(err, io.ErrUnexpectedEOF):
		b.q.cut.Store(true)
	}
	return n, err
}

// movingWriter is an answer that must make progress: the peer must take each piece in
// time.
type movingWriter struct {
	http.ResponseWriter
	q    *httpRequest
	none bool // there is no answer
}

// WriteHeader closes the connection instead of a proxy's own error when the client has ended in
// the middle of its body: so does nginx in front of a site, which does not see such a request.
func (w *movingWriter) WriteHeader(status int) {
	if status == http.StatusBadGateway && w.q.cut.Load() {
		if c, _, err := w.q.rc.Hijack(); err == nil {
			w.none = true
			c.Close()
			return
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *movingWriter) Write(p []byte) (int, error) {
	if w.none {
		return 0, net.ErrClosed
	}
	w.q.write()
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find methods that movingWriter lacks.
func (w *movingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
