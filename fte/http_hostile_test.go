package fte

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const honestHTTP, hostileHTTP = honest + ":1", "[" + hostile + "]:1"

// straight gives requests right to a handler, as if they came from an address.
type straight struct {
	http.Handler
	from string
}

// straightWriter takes an answer. Its read deadline works if it is over already.
type straightWriter struct {
	*httptest.ResponseRecorder
	body io.Closer
}

func (w straightWriter) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && t.Before(time.Now()) && w.body != nil {
		w.body.Close()
	}
	return nil
}

func (h straight) RoundTrip(r *http.Request) (*http.Response, error) {
	w := straightWriter{httptest.NewRecorder(), r.Body}
	in := r.Clone(r.Context())
	in.RemoteAddr = h.from
	if in.Body == nil {
		in.Body = http.NoBody
	}
	h.ServeHTTP(w, in)
	return w.Result(), nil
}

// httpPair is an HTTPServer that echoes, and what opens sessions to it.
func httpPair(t *testing.T, hs *HTTPServer) (join func(from string) (*Conn, string)) {
	client, server := chivePair(t, "hex", Protocol{})
	hs.Transport = server
	go echo(hs)
	return func(from string) (*Conn, string) {
		raw, err := HTTPDialer{URL: "http://192.0.2.80/", Client: &http.Client{Transport: straight{hs, from}}}.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return client.Wrap(raw), raw.(*httpConn).c.url
	}
}

// post sends one request and returns the answer's status.
func post(t *testing.T, hs *HTTPServer, from, url string, body io.Reader) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp, err := straight{hs, from}.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	return resp.StatusCode
}

// TestHTTPOneRequestAtATime makes a client send requests at the same time: only
// one of them may hold its body at the server.
func TestHTTPOneRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := &HTTPServer{}
		defer time.Sleep(3 * HTTPIdle) // what timers are left
		defer hs.Close()
		c, url := httpPair(t, hs)(honestHTTP)
		defer c.Close()
		works(t, c)
		c.raw.(*httpConn).c.out.end() // it polls no more
		time.Sleep(httpPollMost)
		body, end := io.Pipe()
		done := make(chan int)
		go func() { done <- post(t, hs, honestHTTP, url, body) }()
		synctest.Wait() // it waits for its body
		before := hs.mem.Used()
		for range 10 {
			if code := post(t, hs, honestHTTP, url, strings.NewReader(strings.Repeat("0", httpBody))); code != http.StatusNotFound {
				t.Errorf("a request beside another gets %d", code)
			}
		}
		if used := hs.mem.Used(); used > before {
			t.Errorf("%d bytes are held for requests beside each other", used-before)
		}
		end.Close()
		if code := <-done; code != http.StatusOK {
			t.Errorf("the first request gets %d", code)
		}
	})
}

// TestHTTPEndedSessionsMakeRoom: sessions that are over hold no place against
// new ones, though what they wrote last can still be fetched for a while.
func TestHTTPEndedSessionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := &HTTPServer{MaxSessions: 3}
		defer time.Sleep(3 * HTTPIdle)
		defer hs.Close()
		join := httpPair(t, hs)
		for i := range 10 {
			c, _ := join(hostileHTTP)
			works(t, c)
			c.CloseWrite()
			c.Close()
			time.Sleep(5 * time.Second) // the last request
			hs.mu.Lock()
			if n := len(hs.sessions); n > 3 {
				t.Errorf("%d sessions after %d", n, i+1)
			}
			hs.mu.Unlock()
		}
		var open []*Conn
		for range 3 {
			c, _ := join(honestHTTP)
			works(t, c)
			open = append(open, c)
		}
		c, _ := join(honestHTTP)
		if err := c.Handshake(); err == nil {
			t.Error("a fourth session is let in beside three open ones")
		}
		for _, c := range open {
			works(t, c)
			c.Close()
		}
	})
}

// TestHTTPNobodyAccepts: sessions that end before they are accepted leave nothing.
func TestHTTPNobodyAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := chivePair(t, "hex", Protocol{})
		hs := &HTTPServer{Transport: server}
		for range 3 {
			raw, err := HTTPDialer{URL: "http://192.0.2.80/", Client: &http.Client{Transport: straight{hs, honestHTTP}}}.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := client.Wrap(raw)
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		time.Sleep(3 * HTTPIdle)
		synctest.Wait()
		if len(hs.sessions) != 0 || hs.mem.Used() != 0 {
			t.Errorf("%d sessions and %d bytes are left", len(hs.sessions), hs.mem.Used())
		}
		done := make(chan struct{})
		go func() {
			if _, err := hs.Accept(); err == nil {
				t.Error("a session that is over is accepted")
			}
			close(done)
		}()
		synctest.Wait()
		hs.Close()
		<-done
	})
}

// TestHTTPMemoryBound has sessions whose answers are not fetched, and requests
// that stand still, fill the server.
func TestHTTPMemoryBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 2 << 20
		hs := &HTTPServer{MaxMemory: bound}
		defer time.Sleep(3 * HTTPIdle)
		defer hs.Close()
		join := httpPair(t, hs)
		good, _ := join(honestHTTP)
		works(t, good)
		for range 20 {
			c, url := join(hostileHTTP)
			if err := c.Handshake(); err != nil {
				continue
			}
			// The echo comes back, and is not asked for.
			go c.Write(make([]byte, 200_000))
			time.Sleep(time.Second)
			c.raw.(*httpConn).cancel()
			body, more := io.Pipe()
			go more.Write(make([]byte, 100_000))
			ended := time.AfterFunc(HTTPIdle, func() { body.Close() })
			go func() {
				post(t, hs, hostileHTTP, url, body)
				ended.Stop()
				body.Close()
			}()
			synctest.Wait()
			if used := hs.mem.Used(); used > bound {
				t.Errorf("%d bytes are held, the bound is %d", used, bound)
			}
			c.Close()
		}
		works(t, good)
		good.Close()
	})
}

// TestHTTPConnections: one address's idle connections keep no other client out.
func TestHTTPConnections(t *testing.T) {
	hs := &HTTPServer{MaxSessions: 3, MaxPending: 2}
	defer hs.Close()
	first := fromAddr{addr: addrOf(honest)}
	a, b := net.Pipe()
	defer a.Close()
	first.Conn = b
	hs.ConnState(&first, http.StateNew)
	var all []net.Conn
	for range 20 {
		a, b := net.Pipe()
		hs.ConnState(&fromAddr{b, addrOf(hostile)}, http.StateNew)
		all = append(all, a)
	}
	open := 0
	for _, c := range all {
		if !closed(c) {
			open++
		}
	}
	if open != 4 || closed(a) {
		t.Errorf("%d connections of one address are left, of 5 that may be", open)
	}
	if hs.conns.n != 5 {
		t.Errorf("%d connections are counted", hs.conns.n)
	}
}
