package fte

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// HTTP carries connections as real HTTP/1.1 messages (RFC 9112): a client's
// bytes are bodies of POST requests, a server's are bodies of the responses,
// and the two alternate. What is inside is a Protocol in strict mode, so
// that every body is text of its language. Any HTTP proxy may stand between;
// the connection below need not be one and the same.
const (
	httpBody     = 256 << 10             // most bytes of one body
	httpHold     = 50 * time.Millisecond // how long a response waits for bytes
	httpIdle     = 2 * time.Minute       // a session without requests ends
	httpPoll     = 20 * time.Millisecond // a client's first pause when nothing happens
	httpPollMost = 2 * time.Second       // and its longest
	sessionLen   = 16
)

// HTTPDialer makes connections to an HTTPServer.
type HTTPDialer struct {
	// URL is the server's, such as http://203.0.113.5/ or that of a proxy or
	// content network before it.
	URL string
	// Host is the Host header; "" is the URL's.
	Host string
	// ContentType is what requests say that their bodies are; "" is text/plain.
	ContentType string
	// Proxy is the URL of an HTTP proxy to go through; "" is none, whatever the
	// environment says.
	Proxy string
	// Client sends the requests; nil is one of its own that follows nothing.
	// One that is given ignores Proxy.
	Client *http.Client
}

// Dial returns a new connection, on which nothing has been sent. Wrap it with
// a Protocol's client.
func (d HTTPDialer) Dial(context.Context) (net.Conn, error) {
	u, err := url.Parse(d.URL)
	if err != nil || u.Host == "" {
		return nil, fault.New(fault.Config, "%q isn't an http URL with a host", d.URL)
	}
	var id [sessionLen]byte
	rand.Read(id[:])
	u = u.JoinPath(hex.EncodeToString(id[:]))
	if d.ContentType == "" {
		d.ContentType = "text/plain"
	}
	if d.Client == nil {
		t := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1}
		if d.Proxy != "" {
			via, err := url.Parse(d.Proxy)
			if err != nil || via.Host == "" || via.Scheme != "http" && via.Scheme != "https" {
				return nil, fault.New(fault.Config, "the proxy isn't an http URL with a host")
			}
			t.Proxy = http.ProxyURL(via)
			// Some proxies close a connection after an answer without saying so.
			// A request that runs into that can't be sent again: it may have
			// arrived.
			t.DisableKeepAlives = true
		}
		d.Client = &http.Client{
			Transport:     t,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	inner, outer := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	c := &httpClient{d: d, url: u.String(), pipe: inner, out: newHTTPQueue()}
	go c.run(ctx)
	return &httpConn{Conn: outer, out: c.out, cancel: cancel}, nil
}

// httpQueue holds bytes between a pipe and the next message.
type httpQueue struct {
	mu     sync.Mutex
	b      []byte
	closed bool
	some   chan struct{} // holds a token when there is something to see
	room   chan struct{} // holds a token when bytes were taken
}

func newHTTPQueue() *httpQueue {
	return &httpQueue{some: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put appends p, and waits while the queue is full. It fails after end.
func (q *httpQueue) put(p []byte) (n int, err error) {
	for len(p) > 0 {
		q.mu.Lock()
		k := min(len(p), httpBody-len(q.b))
		if q.closed {
			q.mu.Unlock()
			signal(q.room) // for another writer
			return n, net.ErrClosed
		}
		q.b = append(q.b, p[:k]...)
		q.mu.Unlock()
		signal(q.some)
		n, p = n+k, p[k:]
		if len(p) > 0 {
			<-q.room
		}
	}
	return n, nil
}

// end says that nothing more will come.
func (q *httpQueue) end() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	signal(q.some)
	signal(q.room)
}

// take waits up to d for bytes and returns what there is, and whether more can
// come.
func (q *httpQueue) take(ctx context.Context, d time.Duration) (b []byte, open bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		q.mu.Lock()
		b, open = q.b, !q.closed
		if len(b) > 0 || !open {
			q.b = nil
			q.mu.Unlock()
			signal(q.room)
			return b, open
		}
		q.mu.Unlock()
		select {
		case <-q.some:
		case <-t.C:
			return nil, true
		case <-ctx.Done():
			q.mu.Lock()
			b, open = q.b, false
			q.b = nil
			q.mu.Unlock()
			signal(q.room)
			return b, open
		}
	}
}

// httpClient turns one connection into requests.
type httpClient struct {
	d    HTTPDialer
	url  string
	pipe net.Conn
	out  *httpQueue
}

// httpConn is a client's end of a session: it reads responses and writes
// requests.
type httpConn struct {
	net.Conn
	out    *httpQueue
	cancel context.CancelFunc
}

func (c *httpConn) Write(p []byte) (int, error) { return c.out.put(p) }

// Close lets what was written go out first, in a last request.
func (c *httpConn) Close() error {
	c.out.end()
	time.AfterFunc(httpIdle, c.cancel)
	return c.Conn.Close()
}

// run sends requests until the server or the owner ends the session.
func (c *httpClient) run(ctx context.Context) {
	defer c.d.Client.CloseIdleConnections()
	defer c.pipe.Close()
	defer c.out.end()
	pause := httpIdle // a session begins with bytes
	for {
		b, open := c.out.take(ctx, pause)
		if len(b) == 0 && !open {
			return
		}
		got, err := c.round(ctx, b)
		if err != nil {
			return
		}
		if len(b)+got > 0 {
			pause = 0
		} else {
			pause = min(max(httpPoll, 2*pause), httpPollMost)
		}
	}
}

// round sends one request and delivers the response's body. It returns the
// body's length.
func (c *httpClient) round(ctx context.Context, b []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	if c.d.Host != "" {
		req.Host = c.d.Host
	}
	req.Header.Set("Content-Type", c.d.ContentType)
	resp, err := c.d.Client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fault.New(fault.Network, "the server answers %s", resp.Status)
	}
	n, err := io.Copy(c.pipe, io.LimitReader(resp.Body, httpBody+1))
	if err == nil && n > httpBody {
		err = fault.New(fault.Protocol, "a response is longer than %d bytes", httpBody)
	}
	return int(n), err
}

// HTTPServer is an http.Handler that accepts connections of HTTPDialers, and
// hands every other request to a decoy. Use it below net/http's server, and
// give it the server side of a Protocol.
type HTTPServer struct {
	// Transport is the protocol inside.
	Transport Transport
	// Decoy answers what is no session, such as an httputil.ReverseProxy to a
	// real site; nil answers 404.
	Decoy http.Handler
	// ContentType is what responses say that their bodies are; "" is text/plain.
	ContentType string
	// MaxSessions bounds the sessions; 0 is DefaultMaxConns. Beyond it, new ones
	// get the decoy.
	MaxSessions int
	// Address is the address that Addr returns.
	Address net.Addr
	// Stats, when set, is counted into; a session is a connection there, and
	// each request that the decoy answers is one that was handed to it.
	Stats *Stats

	once  sync.Once
	ready chan *Conn
	done  chan struct{}
	close sync.Once

	mu       sync.Mutex
	sessions map[string]*httpSession // guarded by mu
}

// httpSession is one connection's server side.
type httpSession struct {
	mu    sync.Mutex // one request at a time
	pipe  net.Conn
	out   *httpQueue
	timer *time.Timer
	known bool // the hello was answered
	inner *hungryConn
	gone  chan struct{}
}

// hungryConn is what a server reads a session's requests from and writes its
// responses to. It tells when its reader wants more than it was given.
type hungryConn struct {
	net.Conn
	left   atomic.Int64 // bytes that were announced and not read yet
	hungry chan struct{}
	out    *httpQueue
	closed func()
}

func (c *hungryConn) Write(p []byte) (int, error) { return c.out.put(p) }

func (c *hungryConn) Close() error {
	c.out.end()
	c.closed()
	return c.Conn.Close()
}

func (c *hungryConn) Read(p []byte) (int, error) {
	if c.left.Load() == 0 {
		signal(c.hungry)
	}
	n, err := c.Conn.Read(p)
	c.left.Add(-int64(n))
	return n, err
}

func (s *HTTPServer) init() {
	s.once.Do(func() {
		s.ready, s.done, s.sessions = make(chan *Conn), make(chan struct{}), map[string]*httpSession{}
		if s.MaxSessions <= 0 {
			s.MaxSessions = DefaultMaxConns
		}
		if s.ContentType == "" {
			s.ContentType = "text/plain"
		}
		if s.Decoy == nil {
			s.Decoy = http.NotFoundHandler()
		}
		if s.Stats == nil {
			s.Stats = new(Stats)
		}
	})
}

// Accept returns the next authenticated connection, a *Conn.
func (s *HTTPServer) Accept() (net.Conn, error) {
	s.init()
	select {
	case c := <-s.ready:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Addr returns the address of the HTTP server.
func (s *HTTPServer) Addr() net.Addr { return s.Address }

// Close ends Accept and every session.
func (s *HTTPServer) Close() error {
	s.init()
	s.close.Do(func() { close(s.done) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		x.inner.Close()
	}
	return nil
}

// ServeHTTP takes one request of a session, or gives it to the decoy.
func (s *HTTPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.init()
	name := r.URL.Path
	if i := len(name) - 2*sessionLen; i > 0 {
		name = name[i:]
	}
	id, err := hex.DecodeString(name)
	if r.Method != http.MethodPost || err != nil || len(id) != sessionLen {
		s.Stats.Decoyed.Add(1)
		s.Decoy.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, httpBody))
	if err != nil {
		s.refuse(w, r, body)
		return
	}
	x := s.session(string(id), len(body))
	if x == nil {
		s.refuse(w, r, body)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer.Reset(httpIdle)
	if x.known {
		x.inner.left.Add(int64(len(body)))
	}
	sent := make(chan error, 1)
	go func() {
		var err error
		if len(body) > 0 { // a reader sees an empty write
			_, err = x.pipe.Write(body)
		}
		sent <- err
	}()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	hold := httpHold
	if !x.known {
		// A request holds a whole hello or none: when it was read and more is
		// wanted, the answer is no.
		hold = DefaultHandshakeTimeout
		go func() {
			select {
			case <-x.inner.hungry:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	out, open := x.out.take(ctx, hold)
	if !x.known && len(out) == 0 {
		x.inner.Close()
		s.forget(string(id))
		s.refuse(w, r, body)
		return
	}
	x.known = true
	if len(out) == 0 && !open {
		http.NotFound(w, r) // the session is over
		return
	}
	select {
	case <-sent:
	case <-x.gone:
	case <-r.Context().Done():
		x.inner.Close()
	}
	w.Header().Set("Content-Type", s.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Write(out)
}

// refuse gives a request whose body was read to the decoy.
func (s *HTTPServer) refuse(w http.ResponseWriter, r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.Stats.Decoyed.Add(1)
	s.Decoy.ServeHTTP(w, r)
}

// session returns a session, and makes it when a body can begin one.
func (s *HTTPServer) session(id string, first int) *httpSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[id]; x != nil {
		return x
	}
	select {
	case <-s.done:
		return nil
	default:
	}
	if first == 0 || len(s.sessions) >= s.MaxSessions {
		return nil
	}
	inner, outer := net.Pipe()
	x := &httpSession{pipe: outer, out: newHTTPQueue(), gone: make(chan struct{})}
	var once sync.Once
	x.inner = &hungryConn{Conn: inner, out: x.out, hungry: make(chan struct{}, 1), closed: func() {
		once.Do(func() {
			close(x.gone)
			x.timer.Stop()
			// What was written last can still be fetched.
			time.AfterFunc(httpIdle, func() { s.forget(id) })
		})
	}}
	x.inner.left.Store(int64(first)) // before its reader starts
	x.timer = time.AfterFunc(httpIdle, func() { x.inner.Close() })
	s.sessions[id] = x
	s.Stats.Accepted.Add(1)
	s.Stats.Pending.Add(1)
	go s.authenticate(x.inner)
	return x
}

// forget drops a session.
func (s *HTTPServer) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

// authenticate runs a session's handshake.
func (s *HTTPServer) authenticate(raw net.Conn) {
	c := s.Transport.Wrap(raw)
	raw.SetDeadline(time.Now().Add(DefaultHandshakeTimeout))
	err := c.Handshake()
	s.Stats.Pending.Add(-1)
	if err != nil {
		s.Stats.Failed.Add(1)
		raw.Close()
		return
	}
	s.Stats.Opened.Add(1)
	raw.SetDeadline(time.Time{})
	select {
	case s.ready <- c:
	case <-s.done:
		raw.Close()
	}
}

var _ net.Listener = (*HTTPServer)(nil)
