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
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// HTTPDialer makes connections to an HTTPServer.
type HTTPDialer struct {
	// URL is the URL of the server, such as http://203.0.113.5/, or of a proxy or
	// content network before it.
	URL string
	// Host is the Host header; "" means the host of URL.
	Host string
	// ContentType is the Content-Type header of requests; "" is text/plain.
	ContentType string
	// Proxy is the URL of an HTTP proxy; "" means none, even if the environment
	// names one.
	Proxy string
	// Client sends the requests; nil is a client that follows no redirects. If
	// Client is set, Proxy is ignored.
	Client *http.Client
}

// Dial returns a new connection. It sends nothing; wrap the connection with a
// Protocol's client.
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
		t := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1, MaxResponseHeaderBytes: HTTPHeader}
		if d.Proxy != "" {
			via, err := url.Parse(d.Proxy)
			if err != nil || via.Host == "" || via.Scheme != "http" && via.Scheme != "https" {
				return nil, fault.New(fault.Config, "the proxy isn't an http URL with a host")
			}
			t.Proxy = http.ProxyURL(via)
			// Some proxies close a connection after an answer without saying so. A
			// request on such a connection fails, and cannot be sent again, because
			// it may have arrived.
			t.DisableKeepAlives = true
		}
		d.Client = &http.Client{
			Transport:     t,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	inner, outer := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	c := &httpClient{d: d, url: u.String(), pipe: inner, out: newHTTPQueue(), over: make(chan struct{})}
	go panics.Contain(nil, func(err error) { c.err.CompareAndSwap(nil, &err) }, func() { c.run(ctx) })()
	return &httpConn{Conn: outer, c: c, cancel: cancel}, nil
}

// httpClient turns one connection into requests.
type httpClient struct {
	d    HTTPDialer
	url  string
	pipe net.Conn
	out  *httpQueue
	err  atomic.Pointer[error] // why the session ended, before pipe is closed
	over chan struct{}         // closed when run ends
}

// httpConn is a client's end of a session: it reads responses and writes
// requests.
type httpConn struct {
	net.Conn
	c      *httpClient
	cancel context.CancelFunc
}

func (c *httpConn) Write(p []byte) (int, error) { return c.c.out.put(p) }

// Read returns the cause if the session ended with an error.
func (c *httpConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if why := c.c.err.Load(); err == io.EOF && why != nil {
		err = *why
	}
	return n, err
}

// Close first sends the bytes that were written, in a last request.
func (c *httpConn) Close() error {
	c.c.out.end()
	time.AfterFunc(HTTPIdle, panics.Contain(nil, nil, c.cancel))
	return c.Conn.Close()
}

// linger waits after Close until the last request is over, or ctx.
func (c *httpConn) linger(ctx context.Context) {
	select {
	case <-c.c.over:
	case <-ctx.Done():
	}
}

// run sends requests until the server or the owner ends the session.
func (c *httpClient) run(ctx context.Context) {
	defer close(c.over)
	defer c.d.Client.CloseIdleConnections()
	defer c.pipe.Close()
	defer c.out.end()
	pause := HTTPIdle // a session begins when the caller writes
	for {
		b, open := c.out.take(ctx, pause)
		if len(b) == 0 && !open {
			return
		}
		got, err := c.round(ctx, b)
		if err != nil {
			c.err.Store(&err)
			return
		}
		if len(b)+got > 0 {
			pause = 0
		} else {
			pause = min(max(httpPoll, 2*pause), httpPollMost)
		}
	}
}

// round sends one request and delivers the body of the response. It returns that
// body's length in bytes.
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
		return 0, fault.New(fault.Network, "a request: %w", err)
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
