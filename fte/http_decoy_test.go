package fte

import (
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
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	// The site may answer and end the connection before it has read all.
	_, _ = io.WriteString(c, send)
	got, err := io.ReadAll(c)
	if err != nil && len(got) == 0 {
		t.Fatal(err)
	}
	return regexp.MustCompile(`Date: [^\r]*`).ReplaceAllString(string(got), "Date")
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
	origin := httptest.NewServer(http.HandlerFunc(site))
	defer origin.Close()
	at, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	decoy := httputil.NewSingleHostReverseProxy(at)
	decoy.ErrorLog = log.New(io.Discard, "", 0)
	_, transport := chivePair(t, "words", Protocol{})
	hs := &HTTPServer{Transport: transport, Decoy: decoy}
	defer hs.Close()
	plain := httptest.NewServer(hs.Decoy)
	defer plain.Close()
	front := httptest.NewServer(hs)
	defer front.Close()
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
			direct, proxied := ask(t, at.Host, c.send), ask(t, plain.Listener.Addr().String(), c.send)
			behind := ask(t, front.Listener.Addr().String(), c.send)
			if behind != proxied {
				t.Errorf("the proxy alone: %q\nbehind the server: %q", proxied, behind)
			}
			if !c.proxy && sorted(behind) != sorted(direct) { // the proxy orders headers anew
				t.Errorf("the site: %q\nbehind the server: %q", direct, behind)
			}
		})
	}
}
