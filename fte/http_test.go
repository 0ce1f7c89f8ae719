package fte

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestHTTP carries connections by real HTTP messages through an ordinary
// reverse proxy, which also serves strangers the decoy.
func TestHTTP(t *testing.T) {
	client, server := chivePair(t, "words", Protocol{})
	hs := &HTTPServer{Transport: server, Decoy: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "a decoy")
	})}
	origin := httptest.NewServer(hs)
	defer origin.Close()
	target, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	defer front.Close()
	const size = 200_000
	upstream := exchangeServer(t, size)
	startProxy(t, &Proxy{Dial: dialTo(upstream.Addr().String())}, hs)
	l := loopback(t)
	d := HTTPDialer{URL: front.URL, Host: "www.example.com"}
	startProxy(t, &Proxy{Dial: d.Dial, Dialed: client}, l)
	exchange(t, l.Addr().String(), size)

	for _, req := range []string{"GET / HTTP/1.1\r\n", "POST /0123456789abcdef0123456789abcdef HTTP/1.1\r\nContent-Length: 5\r\n"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(60 * time.Second))
		io.WriteString(c, req+"Host: x\r\n\r\n"+"AAAAA")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != "a decoy" {
			t.Errorf("%q gets %q, %v", req, b, err)
		}
	}
}

// TestHTTPMessages reads what is on the wire with a parser of its own: real
// messages, whose bodies are text of the language.
func TestHTTPMessages(t *testing.T) {
	client, server := chivePair(t, "base64", Protocol{})
	hs := &HTTPServer{Transport: server}
	defer hs.Close()
	var bodies [2]bytes.Buffer
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.Host != "www.example.com" || r.ContentLength != int64(len(b)) {
			t.Errorf("request to %q of %d bytes, length %d: %v", r.Host, len(b), r.ContentLength, err)
		}
		bodies[0].Write(b)
		r.Body = io.NopCloser(bytes.NewReader(b))
		rec := httptest.NewRecorder()
		hs.ServeHTTP(rec, r)
		if rec.Code == http.StatusOK { // the last request finds the session over
			bodies[1].Write(rec.Body.Bytes())
			if n := rec.Header().Get("Content-Length"); n != strconv.Itoa(rec.Body.Len()) || !rec.Flushed {
				t.Errorf("an answer of %d bytes has length %q, and is flushed: %v", rec.Body.Len(), n, rec.Flushed)
			}
		}
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	}))
	defer origin.Close()
	raw, err := HTTPDialer{URL: origin.URL, Host: "www.example.com"}.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c := client.Wrap(raw)
	go func() {
		if _, err := c.Write(noise(5000, 1)); err != nil {
			t.Error(err)
		}
	}()
	s, err := hs.Accept()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5000)
	if _, err := io.ReadFull(s, got); err != nil || sha256.Sum256(got) != sha256.Sum256(noise(5000, 1)) {
		t.Fatal("what arrived isn't what was sent:", err)
	}
	go s.Write(noise(3000, 2))
	if _, err := io.ReadFull(c, got[:3000]); err != nil || !bytes.Equal(got[:3000], noise(3000, 2)) {
		t.Fatal("what came back isn't what was sent:", err)
	}
	s.Close()
	c.Close()
	origin.Close()
	re := goPattern(mustFormat(t, "base64-request"))
	for i := range bodies {
		if b := bodies[i].Bytes(); len(b) == 0 || !re.Match(b) {
			t.Errorf("bodies of direction %d aren't in the language: %.100q", i, b)
		}
	}
}

// TestHTTPCurl: curl, another project's client, sees the decoy.
func TestHTTPCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		missing(t, "curl: %v", err)
	}
	_, server := chivePair(t, "words", Protocol{})
	hs := &HTTPServer{Transport: server}
	defer hs.Close()
	origin := httptest.NewServer(hs)
	defer origin.Close()
	out, err := exec.Command(curl, "-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "60", "-d", "hello world", origin.URL+"/"+strings.Repeat("ab", sessionLen)).Output()
	if err != nil || string(out) != "404" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestHTTPTinyproxy goes through another project's HTTP proxy.
func TestHTTPTinyproxy(t *testing.T) {
	tinyproxy, err := exec.LookPath("tinyproxy")
	if err != nil {
		missing(t, "tinyproxy: %v", err)
	}
	port := freePort(t)
	conf := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "Port %d\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nMaxClients 20\n", port), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tinyproxy, "-d", "-c", conf)
	if err := cmd.Start(); err != nil {
		missing(t, "tinyproxy: %v", err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	via := fmt.Sprintf("127.0.0.1:%d", port)
	dialReady(t, via)
	client, server := chivePair(t, "words", Protocol{})
	hs := &HTTPServer{Transport: server}
	origin := httptest.NewServer(hs)
	defer origin.Close()
	const size = 200_000
	upstream := exchangeServer(t, size)
	startProxy(t, &Proxy{Dial: dialTo(upstream.Addr().String())}, hs)
	l := loopback(t)
	startProxy(t, &Proxy{Dial: HTTPDialer{URL: origin.URL, Proxy: "http://" + via}.Dial, Dialed: client}, l)
	exchange(t, l.Addr().String(), size)

	if _, err := (HTTPDialer{URL: origin.URL, Proxy: via}).Dial(t.Context()); err == nil {
		t.Error("a proxy without a scheme is accepted")
	}
}
