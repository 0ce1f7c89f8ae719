package localhttp

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/panics/panicstest"
)

// TestRefusedReachNobody: a request that is refused does not reach the handler, nothing of it is answered, and
// the connection ends. One that panics is an error of the server.
func TestRefusedReachNobody(t *testing.T) {
	asked := 0
	s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Path == "/panic" {
			panic("of the test")
		}
		w.Write([]byte("secret"))
	})}
	h := s.guarded(slog.New(slog.DiscardHandler))
	ask := func(host, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := ask("evil.example", "/"); asked != 0 || w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "secret") || w.Header().Get("Connection") != "close" {
		t.Errorf("refused: asked %d times, %d, %q, %v", asked, w.Code, w.Body, w.Header())
	}
	if w := ask("localhost", "/"); asked != 1 || w.Code != http.StatusOK || w.Body.String() != "secret" {
		t.Errorf("allowed: asked %d times, %d, %q", asked, w.Code, w.Body)
	}
	panicstest.Expect(t, 1)
	if w := ask("localhost", "/panic"); w.Code != http.StatusInternalServerError {
		t.Errorf("a panic: %d", w.Code)
	}
}

// TestBracketedHosts: an address of IPv6 passes with and without a port, and what only looks like one does not.
func TestBracketedHosts(t *testing.T) {
	for host, ok := range map[string]bool{"[::1]": true, "[::1]:80": true, "[]": false, "[": false, "[::1": false, "::1]": false, "[x]": false, "(::1)": false, "[::1)": false} {
		if got := new(Guard).host(host); got != ok {
			t.Errorf("%q: %v", host, got)
		}
	}
}
