package fte

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ports"
)

// TestHTTPOversize: a request that is too long for a session gets what the
// decoy says, like every other, and the decoy gets all of it.
func TestHTTPOversize(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d bytes to %s: %v", n, r.URL.Path, err)
	}))
	defer origin.Close()
	target, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, server := chivePair(t, "words", Protocol{})
	hs := &HTTPServer{Transport: server, Decoy: httputil.NewSingleHostReverseProxy(target)}
	defer hs.Close()
	front := httptest.NewServer(hs)
	defer front.Close()
	for i, path := range []string{"/page", "/" + strings.Repeat("ab", sessionLen)} {
		for _, n := range []int{0, 100, maxHelloText, maxHelloText + 1, httpBody + 1, 1 << 20} {
			for _, chunked := range []bool{false, true} {
				var body io.Reader = bytes.NewReader(noise(n, uint64(i)))
				if chunked {
					body = io.MultiReader(body)
				}
				resp, err := http.Post(front.URL+path, "text/plain", body)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if want := fmt.Sprintf("%d bytes to %s: <nil>", n, path); err != nil || string(got) != want {
					t.Errorf("%d bytes to %s, chunked %v: %q, %v", n, path, chunked, got, err)
				}
			}
		}
	}
}

// TestHTTPMaxPending has requests stand still that may begin a session: when
// there are too many, the oldest gets the decoy.
func TestHTTPMaxPending(t *testing.T) {
	_, server := chivePair(t, "words", Protocol{})
	hs := &HTTPServer{Transport: server, MaxPending: 2}
	hs.init() // before the test looks into it
	defer hs.Close()
	origin := httptest.NewServer(hs)
	defer origin.Close()
	pending := func() int {
		hs.mu.Lock()
		defer hs.mu.Unlock()
		return hs.pending.n
	}
	var still []*bufio.Reader
	for i := range 4 {
		c, err := net.Dial("tcp", origin.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(60 * time.Second))
		fmt.Fprintf(c, "POST /%032x HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nsome", i)
		still = append(still, bufio.NewReader(c))
		for end := time.Now().Add(time.Minute); pending() != min(i+1, 2) || hs.Stats.Evicted.Load() != uint64(max(i-1, 0)); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("request %d: %d are pending, %d gave way", i, pending(), hs.Stats.Evicted.Load())
			}
		}
		if i < 2 {
			continue
		}
		resp, err := http.ReadResponse(still[i-2], nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusNotFound {
			t.Error(resp.Status)
		}
	}
	if n, e, p := hs.Stats.Accepted.Load(), hs.Stats.Evicted.Load(), pending(); n != 0 || e != 2 || p != 2 {
		t.Errorf("%d sessions, %d gave way, %d are pending", n, e, p)
	}
}

// TestHTTPTellsWhy: a client learns what a server answered that is none.
func TestHTTPTellsWhy(t *testing.T) {
	client, _ := chivePair(t, "words", Protocol{})
	origin := httptest.NewServer(http.NotFoundHandler())
	defer origin.Close()
	var lease ports.Leases
	defer lease.Release()
	free, err := lease.Take(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	for want, at := range map[string]string{"404": origin.URL, "refused": fmt.Sprintf("http://127.0.0.1:%d", free)} {
		raw, err := HTTPDialer{URL: at}.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := client.Wrap(raw)
		if err := c.Handshake(); !fault.Is(err, fault.Network) || !strings.Contains(err.Error(), want) {
			t.Error(err)
		} else if text := HideAddr(err); strings.Contains(text, "127.0.0.1") {
			t.Error(text)
		}
		c.Close()
	}
}
