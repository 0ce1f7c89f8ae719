package fte

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// site is a web site that takes no POST without reading its body, and tells what it gets of
// other requests.
func site(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page takes no POST", http.StatusMethodNotAllowed)
		return
	}
	n, err := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%s: %d bytes, %v\n", r.Method, n, err == nil)
}

// ask sends what a client sends, and returns all that comes back.
func ask(t *testing.T, addr, send string) string {
	t.Helper()
	return askAndEnd(t, addr, send, false)
}

// askAndEnd is ask; end: the client then ends its side of the connection.
func askAndEnd(t *testing.T, addr, send string, end bool) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	// The site may answer and end the connection before it has read all.
	_, _ = io.WriteString(c, send)
	if end {
		_ = c.(*net.TCPConn).CloseWrite() // it may have ended already
	}
	got, err := io.ReadAll(c)
	if err != nil && len(got) == 0 {
		t.Fatal(err)
	}
	return regexp.MustCompile(`Date: [^\r]*`).ReplaceAllString(string(got), "Date")
}

// decoyed starts a site, a proxy before it, and a server with that proxy as its decoy, and returns
// their addresses.
func decoyed(t *testing.T, site http.HandlerFunc) (direct, plain, front string) {
	t.Helper()
	origin := httptest.NewServer(site)
	t.Cleanup(origin.Close)
	at, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	decoy := httputil.NewSingleHostReverseProxy(at)
	decoy.ErrorLog = log.New(io.Discard, "", 0)
	_, transport := chivePair(t, "words", Protocol{})
	hs := &HTTPServer{Transport: transport, Decoy: decoy}
	t.Cleanup(func() { hs.Close() })
	p := httptest.NewServer(decoy)
	t.Cleanup(p.Close)
	f := httptest.NewServer(hs)
	t.Cleanup(f.Close)
	return at.Host, p.Listener.Addr().String(), f.Listener.Addr().String()
}

// TestHTTPDecoyHalfClose: a client that half-closes its connection before a request, in a request or after
// it finds what it finds at the site: the whole answer, if it has sent a whole request. In the middle of
// a body it finds no answer, as at nginx before a site, and never one of a proxy's own.
func TestHTTPDecoyHalfClose(t *testing.T) {
	const path = "/0123456789abcdef0123456789abcdef"
	for name, slow := range map[string]time.Duration{"a site": 0, "a slow site": 50 * time.Millisecond} {
		direct, _, front := decoyed(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(slow) // as a site takes its time
			site(w, r)
		})
		for _, c := range []struct{ head, body string }{
			{"GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n", ""},
			{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ""},
			{"GET / HTTP/1.0\r\nHost: x\r\n\r\n", ""},
			{"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", ""},
			{"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", "0123456789"},
			{"POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", "0123456789"},
			{"POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", ""},
			{"POST " + path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"},
		} {
			whole := c.head + c.body
			for _, n := range []int{0, 3, 20, len(c.head) - 2, len(c.head) - 1, len(c.head), len(whole) - 3, len(whole)} {
				want, got := askAndEnd(t, direct, whole[:n], true), askAndEnd(t, front, whole[:n], true)
				if n >= len(c.head) && n < len(whole) {
					want = ""
				}
				if sorted(got) != sorted(want) {
					t.Errorf("%s: %d bytes of %q: the site: %q\nbehind the server: %q", name, n, whole, want, got)
				}
			}
		}
	}
}

// sorted orders the lines of an answer.
func sorted(s string) string {
	lines := strings.Split(s, "\r\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestHTTPDecoyMatrix: for what no client of ours sends, a server with a decoy answers byte
// by byte what the decoy alone answers, and what the site does, also at a path of the form of a session's.
func TestHTTPDecoyMatrix(t *testing.T) {
	direct, plain, front := decoyed(t, site)
	const path = "/0123456789abcdef0123456789abcdef"
	const end = "Connection: close\r\n\r\n"
	post := "POST " + path + " HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct {
		send  string
		proxy bool // Go's reverse proxy answers it otherwise than the site
	}{
		"expect":                   {post + "Content-Length: 5\r\nExpect: 100-continue\r\n" + end, false},
		"expect, with the body":    {post + "Content-Length: 5\r\nExpect: 100-continue\r\n" + end + "hello", false},
		"expect something else":    {post + "Content-Length: 5\r\nExpect: miracles\r\n" + end + "hello", false},
		"expect nothing":           {post + "Content-Length: 5\r\nExpect:\r\n" + end + "hello", false},
		"chunked":                  {post + "Transfer-Encoding: chunked\r\n" + end + "5\r\nhello\r\n0\r\n\r\n", false},
		"trailers":                 {post + "Transfer-Encoding: chunked\r\nTrailer: X\r\n" + end + "5\r\nhello\r\n0\r\nX: y\r\n\r\n", false},
		"chunked and a length":     {post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" + end + "5\r\nhello\r\n0\r\n\r\n", false},
		"a chunk that is none":     {post + "Transfer-Encoding: chunked\r\n" + end + "zz\r\n", true},
		"another encoding":         {post + "Transfer-Encoding: gzip\r\n" + end, false},
		"two lengths":              {post + "Content-Length: 5\r\nContent-Length: 6\r\n" + end + "hello!", false},
		"a length twice":           {post + "Content-Length: 5\r\nContent-Length: 5\r\n" + end + "hello", false},
		"a length that is none":    {post + "Content-Length: 5a\r\n" + end + "hello", false},
		"a length below zero":      {post + "Content-Length: -5\r\n" + end + "hello", false},
		"no length":                {post + end, false},
		"upgrade":                  {post + "Content-Length: 0\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n", false},
		"HTTP/2":                   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
		"HTTP/1.0":                 {"POST " + path + " HTTP/1.0\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", false},
		"HTTP/1.2":                 {"POST " + path + " HTTP/1.2\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n" + end, false},
		"HTTP/3.0":                 {"POST " + path + " HTTP/3.0\r\nHost: x\r\nContent-Length: 5\r\n" + end, false},
		"HTTP/0.9":                 {"POST " + path + "\r\n", false},
		"a folded header":          {post + "X: y\r\n z\r\nExpect: 100-continue\r\nContent-Length: 5\r\n" + end, false},
		"a header without a colon": {post + "X\r\n" + end, false},
		"a space before the colon": {post + "X : y\r\n" + end, false},
		"no host":                  {"POST " + path + " HTTP/1.1\r\nContent-Length: 5\r\n" + end, false},
		"two hosts":                {post + "Host: y\r\nContent-Length: 5\r\n" + end, false},
		"GET":                      {"GET " + path + " HTTP/1.1\r\nHost: x\r\n" + end, false},
		"GET with a body":          {"GET " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n" + end + "hello", false},
		"HEAD":                     {"HEAD " + path + " HTTP/1.1\r\nHost: x\r\n" + end, false},
		"PUT":                      {"PUT " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n" + end + "hello", false},
		"a method of its own":      {"PoST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + end, false},
		"a method that is none":    {"P@ST/ " + path + " HTTP/1.1\r\nHost: x\r\n" + end, false},
		"a query":                  {"POST " + path + "?x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n" + end + "hello", false},
		"two in a pipeline":        {post + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello" + post + "Content-Length: 0\r\n" + end, false},
	} {
		t.Run(name, func(t *testing.T) {
			direct, proxied, behind := ask(t, direct, c.send), ask(t, plain, c.send), ask(t, front, c.send)
			if behind != proxied {
				t.Errorf("the proxy alone: %q\nbehind the server: %q", proxied, behind)
			}
			if !c.proxy && sorted(behind) != sorted(direct) { // the proxy orders headers anew
				t.Errorf("the site: %q\nbehind the server: %q", direct, behind)
			}
		})
	}
}

// TestHTTPDecoyAfterEnd: when the client has ended its side, the decoy may finish its answer, and has not
// all the time of the world for it: the client may have gone.
func TestHTTPDecoyAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, transport := chivePair(t, "words", Protocol{})
		asked, ended := make(chan struct{}), make(chan struct{})
		hs := &HTTPServer{Transport: transport, Decoy: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(asked)
			<-r.Context().Done()
			close(ended)
		})}
		defer hs.Close()
		ctx, leave := context.WithCancel(t.Context())
		go hs.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		<-asked
		time.Sleep(time.Hour) // a client that stays may wait
		synctest.Wait()
		start := time.Now()
		leave()
		select {
		case <-ended:
			t.Error("it ends before", time.Since(start))
		case <-time.After(afterEnd - 1):
		}
		<-ended
		if took := time.Since(start); took != afterEnd {
			t.Errorf("it ends after %v", took)
		}
	})
}
