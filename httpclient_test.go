package chive

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/isolation"
)

// webServer is a web server that tells of its connections.
type webServer struct {
	*httptest.Server
	closed chan string // the addresses of the clients' ends
}

func newWebServer(t *testing.T) *webServer {
	s := &webServer{closed: make(chan string, 1000)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) }))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			s.closed <- c.RemoteAddr().String()
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// wait waits until a connection has ended, and returns its address.
func (s *webServer) wait(t *testing.T) string {
	t.Helper()
	select {
	case addr := <-s.closed:
		return addr
	case <-time.After(time.Minute):
		t.Fatal("no connection was closed")
		return ""
	}
}

// webClient is an HTTP client of a chive.Client that has no network: its connections go to
// the web server, and dialed has the key of each.
type webClient struct {
	*Client
	web    *http.Client
	server *webServer
	dialed map[isolation.Key]int
}

func newWebClient(t *testing.T, server *webServer) *webClient {
	c, err := New(Config{Network: silent(t), DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w := &webClient{Client: c, web: c.HTTPClient(), server: server, dialed: map[isolation.Key]int{}}
	w.web.Transport.(*httpTransport).dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.dialed[c.key(ctx, "", 0)]++ // a request of the test at a time
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	t.Cleanup(func() {
		w.web.CloseIdleConnections()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// get asks for a page, and returns the connection on which the server saw the request.
func (w *webClient) get(t *testing.T, key string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(WithIsolation(t.Context(), key), http.MethodGet, w.server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	from, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(from)
}

// TestHTTPClientIsolates: requests with different keys share no connection, and those with
// the same key do.
func TestHTTPClientIsolates(t *testing.T) {
	w := newWebClient(t, newWebServer(t))
	seen := map[string]string{}
	for _, key := range []string{"", "a", "b", "c"} {
		from := w.get(t, key)
		if other, ok := seen[from]; ok {
			t.Errorf("key %q uses the connection of key %q", key, other)
		}
		seen[from] = key
	}
	for from, key := range seen {
		// A transport does not keep a connection whose request was written so late that the answer came first.
		tries, again := 1, w.get(t, key)
		for ; again != from && tries < 20; tries++ {
			from, again = again, w.get(t, key)
		}
		if again != from {
			t.Errorf("key %q does not use its own connection again", key)
		}
	}
	if len(w.dialed) != 4 {
		t.Errorf("connections of %d keys, not 4", len(w.dialed))
	}
}

// TestNewIdentityEndsIdleConnections: a new identity, asked of a client, its parent or its
// child, leaves no connection for later requests. Neither does a reload.
func TestNewIdentityEndsIdleConnections(t *testing.T) {
	w := newWebClient(t, newWebServer(t))
	for name, renew := range map[string]func(){
		"the client": w.NewIdentity,
		"a child":    w.Isolated().NewIdentity,
		"a reload": func() {
			if err := w.Reload(w.Config()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		first := w.get(t, "a")
		renew()
		if w.server.wait(t) != first {
			t.Errorf("%s: another connection was closed", name)
		}
		if w.get(t, "a") == first {
			t.Errorf("%s: the connection is used again", name)
		}
	}
	// A connection that was in use is used no more, either.
	req, err := http.NewRequestWithContext(WithIsolation(t.Context(), "a"), http.MethodGet, w.server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	w.NewIdentity()
	used, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if w.get(t, "a") == string(used) {
		t.Error("a connection of a request that was under way is used again")
	}
}

// TestHTTPClientIsBounded: an HTTP client with many keys forgets the connections of those
// TestRedirectAfterNewIdentity: where a server sends a request on that began before a new identity may name the old one. It has
// a circuit and a connection of its own.
func TestRedirectAfterNewIdentity(t *testing.T) {
	server := newWebServer(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	end := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/first":
			close(began)
			<-goOn
			http.Redirect(w, r, "/second", http.StatusFound)
		case "/second":
			http.Redirect(w, r, "/third?"+r.RemoteAddr, http.StatusFound)
		default:
			end.ServeHTTP(w, r)
		}
	})
	w := newWebClient(t, server)
	type answer struct{ second, third string }
	came := make(chan answer, 1)
	go func() {
		resp, err := w.web.Do(must(http.NewRequestWithContext(WithIsolation(t.Context(), "a"), http.MethodGet, server.URL+"/first", nil)))
		if err != nil {
			t.Error(err)
			came <- answer{}
			return
		}
		defer resp.Body.Close()
		from, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		came <- answer{resp.Request.URL.RawQuery, string(from)}
	}()
	<-began
	w.NewIdentity()
	before := w.get(t, "a")
	close(goOn)
	got := <-came
	if got.second == "" || got.third == "" || got.second == got.third || got.second == before || got.third == before {
		t.Errorf("redirects came by the connections %v, later requests by %s", got, before)
	}
	for key, n := range w.dialed {
		if want := map[bool]int{true: 1, false: 2}[key.Stream != 0]; n != want {
			t.Errorf("%d connections with a key of one stream: %v", n, key.Stream != 0)
		}
	}
	if len(w.dialed) != 3 { // that of "a", before and after, and one for each redirect
		t.Errorf("%d keys", len(w.dialed))
	}
}

// must returns a value of which no mistake is expected.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// that it used least recently.
func TestHTTPClientIsBounded(t *testing.T) {
	w := newWebClient(t, newWebServer(t))
	kept := w.get(t, "0")
	second := w.get(t, "1")
	for i := 2; i < maxHTTPPools; i++ {
		w.get(t, fmt.Sprint(i))
	}
	if w.get(t, "0") != kept {
		t.Error("a connection was forgotten too soon")
	}
	w.get(t, "one more")
	if w.server.wait(t) != second {
		t.Error("not the connection of the key that was used least recently was closed")
	}
	if n := len(w.web.Transport.(*httpTransport).open()); n != maxHTTPPools {
		t.Errorf("%d pools, not %d", n, maxHTTPPools)
	}
	if w.get(t, "0") != kept {
		t.Error("the connection of a key that was used lately was closed")
	}
}

// TestHTTPClientsAreForgotten: a program may ask for any number of HTTP clients.
func TestHTTPClientsAreForgotten(t *testing.T) {
	w := newWebClient(t, newWebServer(t))
	for range 100 {
		w.HTTPClient()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		runtime.GC() // cleanups follow it
		w.core.web.mu.Lock()
		n := len(w.core.web.all)
		w.core.web.mu.Unlock()
		if n == 1 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("%d HTTP clients are kept", n)
		}
		runtime.Gosched()
	}
	if len(w.core.web.inUse()) != 1 {
		t.Error("the one in use was forgotten")
	}
	runtime.KeepAlive(w)
}
