package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestFTEPlaces: a destination that cannot be one is a mistake at the start, and not only
// an error of each connection. The error has no password of a proxy.
func TestFTEPlaces(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	cert, err := runChive(t.Context(), "fte", "keygen", keys)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel() // what is accepted ends at once
	server := []string{"fte", "--quiet", "--protocol", "chive", "--mode", "server", "--key-file", keys, "--server-port", freePort(t)}
	client := []string{"fte", "--quiet", "--protocol", "chive", "--cert", strings.TrimSpace(cert), "--http", "--client-port", freePort(t)}
	for _, c := range []struct {
		side        []string
		flag, value string
		ok          bool
	}{
		{server, "--decoy", "example.com", false}, {server, "--decoy", "127.0.0.1:99999", false}, {server, "--decoy", ":80", true},
		{server, "--decoy", "http://example.com:80", false},
		{server, "--decoy", "a b:80", false}, {server, "--decoy", "a/b:80", false}, {server, "--decoy", "example.com:0", false}, {server, "--decoy", "[fe80::1%eth0]:80", true},
		{server, "--proxy-ip", "a b", false}, {server, "--proxy-ip", "[::1]", false}, {server, "--proxy-port", "0", false}, {server, "--proxy-ip", "::1", true}, {server, "--proxy-ip", "my_host.lan", true},
		{client, "--server-ip", "127.0.0.1:80", false}, {client, "--server-ip", "example.com", true}, {client, "--server-port", "0", false},
		{client, "--http-host", "a b", false}, {client, "--http-host", "a/b", false}, {client, "--http-host", "http://a", false}, {client, "--http-host", "a@b", false},
		{client, "--http-host", "a:b", false}, {client, "--http-host", "[::1", false}, {client, "--http-host", "a\nb", false}, {client, "--http-host", "a:99999", false},
		{client, "--http-host", "example.com", true}, {client, "--http-host", "example.com:8080", true}, {client, "--http-host", "[::1]", true}, {client, "--http-host", "bücher.example", true},
		{client, "--http-url", "http://:80/", false}, {client, "--http-url", "http://a:99999/", false}, {client, "--http-url", "http://a:0/", false}, {client, "--http-proxy", "http://a:0", false},
		{server, "--decoy", "example.com:80", true}, {server, "--decoy", "[::1]:80", true},
		{client, "--http-url", "ftp://example.com/", false}, {client, "--http-url", "example.com:80", false}, {client, "--http-url", "https://example.com/a", true},
		{client, "--http-proxy", "127.0.0.1:3128", false}, {client, "--http-proxy", "socks5://u:secret@h:1", false}, {client, "--http-proxy", "http://127.0.0.1:3128", true},
	} {
		_, err := runChive(ended, append(c.side[:len(c.side):len(c.side)], c.flag, c.value)...)
		if c.ok && err != nil || !c.ok && (!fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.flag) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s %s: %v", c.flag, c.value, err)
		}
	}
}
