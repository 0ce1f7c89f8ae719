package socks

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// curl runs curl and returns its output. Without the program the test is
// skipped, unless CHIVE_INTEROP=1 demands it.
func curl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("curl")
	if err != nil {
		if os.Getenv("CHIVE_INTEROP") == "1" {
			t.Fatal("CHIVE_INTEROP=1, but curl is not installed")
		}
		t.Skip("curl is not installed: its tests did not run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{"-sS", "--noproxy", "", "-m", "60"}, args...)...)
	cmd.Env = []string{"HOME=/nonexistent"} // no proxies and no curlrc of the user's
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestCurl(t *testing.T) {
	body := strings.Repeat("onion ", 100_000)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "web.test" {
			w.Write([]byte(body))
		}
	}))
	defer web.Close()
	host, _, _ := net.SplitHostPort(web.Listener.Addr().String())
	n := &network{hosts: map[string]string{"web.test": web.Listener.Addr().String(), host: web.Listener.Addr().String()}}
	socks, tunnel := start(t, NewSOCKS(Config{Dialer: n})), start(t, NewHTTP(Config{Dialer: n}))
	for name, args := range map[string][]string{
		"socks4a":        {"-x", "socks4a://" + socks},
		"socks5h":        {"-x", "socks5h://" + socks},
		"socks5h + auth": {"-x", "socks5h://user:pass@" + socks},
		"socks5 IP":      {"-x", "socks5://" + socks, "--resolve", "web.test:80:" + host},
		"socks4 IP":      {"-x", "socks4://" + socks, "--resolve", "web.test:80:" + host},
		"http connect":   {"-p", "-x", "http://" + tunnel},
		"http + auth":    {"-p", "-x", "http://tor:x@" + tunnel},
	} {
		out, err := curl(t, append(args, "http://web.test/")...)
		if err != nil || out != body {
			t.Errorf("%s: %v, %d bytes: %.200s", name, err, len(out), out)
		}
	}
	if out, err := curl(t, "-x", "socks5h://"+socks, "http://nowhere.test/"); err == nil || !strings.Contains(out, "(97)") {
		t.Errorf("a host that does not exist: %v %s", err, out)
	}
	if out, err := curl(t, "-p", "-x", "http://"+tunnel, "http://nowhere.test/"); err == nil || !strings.Contains(out, "503") {
		t.Errorf("a host that does not exist, by HTTP: %v %s", err, out)
	}
}
