package dirclient

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestOwnDescriptorRefused: what is no descriptor is an error; a bridge's real
// one is judged by the tests against C tor.
func TestOwnDescriptorRefused(t *testing.T) {
	for answer, kind := range map[string]fault.Kind{
		"HTTP/1.0 404 Not found\r\n\r\n":                            fault.Directory,
		"HTTP/1.0 200 OK\r\n\r\nrouter x 192.0.2.1 1 0 0\n":         fault.Directory,
		"HTTP/1.0 200 OK\r\n\r\n" + strings.Repeat("x", ownLimit+1): fault.Resource,
		"": fault.Network,
	} {
		a, b := net.Pipe()
		go func() {
			req := make([]byte, 512)
			n, _ := b.Read(req)
			if !strings.HasPrefix(string(req[:n]), "GET /tor/server/authority.z HTTP/1.0\r\nHost: 192.0.2.1\r\nAccept-") {
				t.Errorf("asked %q", req[:n])
			}
			io.WriteString(b, answer)
			b.Close()
		}()
		if _, err := OwnDescriptor(t.Context(), a, netip.MustParseAddrPort("192.0.2.1:80")); !fault.Is(err, kind) {
			t.Errorf("%.60q: %v (%v)", answer, err, fault.KindOf(err))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	a, b := net.Pipe()
	defer b.Close()
	go func() {
		io.ReadFull(b, make([]byte, 10))
		cancel()
	}()
	if _, err := OwnDescriptor(ctx, a, netip.MustParseAddrPort("192.0.2.1:80")); !fault.Is(err, fault.Timeout) {
		t.Errorf("a bridge that does not answer: %v", err)
	}
}
