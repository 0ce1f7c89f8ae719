package hsservice

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

func TestParsePort(t *testing.T) {
	for text, want := range map[string]Target{
		"80=127.0.0.1:8080":      {"tcp", "127.0.0.1:8080"},
		"22":                     {"tcp", "127.0.0.1:22"},
		"443=[::1]:8443":         {"tcp", "[::1]:8443"},
		"80=unix:/run/web.sock":  {"unix", "/run/web.sock"},
		"80=unix:/run/a=b:1.soc": {"unix", "/run/a=b:1.soc"},
	} {
		_, got, err := ParsePort(text)
		if err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
		if again, err := ParseTarget(got.String()); err != nil || again != got {
			t.Errorf("%s: %v %v", got, again, err)
		}
	}
	for _, text := range []string{"", "0", "65536", "80=", "80=localhost:80", "80=example.com:80", "80=127.0.0.1", "80=127.0.0.1:0", "80=unix:relative", "x=127.0.0.1:1"} {
		if _, _, err := ParsePort(text); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadAnswer(t *testing.T) {
	status, body, err := readAnswer(strings.NewReader("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"))
	if status != 200 || string(body) != "hi" || err != nil {
		t.Errorf("%d %q %v", status, body, err)
	}
	if status, _, err := readAnswer(strings.NewReader("HTTP/1.0 400 No\r\n\r\n")); status != 400 || err != nil {
		t.Errorf("%d %v", status, err)
	}
	endless := strings.Repeat("X: y\r\n", 1<<20)
	for name, text := range map[string]string{
		"nothing":         "",
		"no HTTP":         "SSH-2.0-OpenSSH\r\n",
		"an endless head": "HTTP/1.0 200 OK\r\n" + endless,
		"half a body":     "HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nhi",
		"a huge body":     "HTTP/1.0 200 OK\r\nContent-Length: 10000000\r\n\r\n" + endless,
	} {
		if _, body, err := readAnswer(strings.NewReader(text)); !fault.Is(err, fault.Network) || len(body) > maxHead+netdoc.MaxHSDescriptor {
			t.Errorf("%s: %d bytes, %v", name, len(body), err)
		}
	}
}
