package deploy

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestWriteResults: an archive has whole lines only, and no file of another directory.
func TestWriteResults(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 10_000)
	for name, text := range map[string]string{"a": "1\n2\n3", "b": "1\n" + long, "c": long + "\n", "d": long, "e": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := WriteResults(&b, dir, []string{"a", "b", "c", "d", "e"}); err != nil {
		t.Fatal(err)
	}
	for r, want := tar.NewReader(&b), []string{"1\n2\n", "1\n", long + "\n", "", ""}; len(want) > 0; want = want[1:] {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want[0] {
			t.Errorf("%.20q, %v", got, err)
		}
	}
	for _, name := range []string{"nothing", "../a", "/etc/passwd", "..", ".", ""} {
		if err := WriteResults(io.Discard, filepath.Join(dir), []string{name}); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

// TestHealthy: a node that answers for metrics is well, and one that does not, or answers something else, is not.
func TestHealthy(t *testing.T) {
	answer := "up 1\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
	defer s.Close()
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	if err := Healthy(t.Context(), at); err != nil {
		t.Error(err)
	}
	answer = "up\n"
	if err := Healthy(t.Context(), at); err == nil {
		t.Error("no value, and no error")
	}
	s.Close()
	if err := Healthy(t.Context(), at); !fault.Is(err, fault.Network) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Healthy(ended, at); err == nil {
		t.Error("ended, and no error")
	}
}
