package daemon

import (
	"bufio"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestPage: the dashboard's address is on standard output with its token, the log has neither, the page
// tells what the client tells, nothing can be ended there, and it ends with the process.
func TestPage(t *testing.T) {
	r := run(t, web(t), "--page", "127.0.0.1:0")
	r.port(t, "socks")
	at := r.port(t, "page")
	a, err := http.Get(at + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	if got := lines.Text(); !strings.Contains(got, `"kind":"client"`) || !strings.Contains(got, `{"name":"network","value":"test"}`) {
		t.Errorf("%s: %s", a.Status, got)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"end", strings.NewReader("node=x"))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Origin", strings.Join(strings.Split(at, "/")[:3], "/"))
	no, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	no.Body.Close()
	if no.StatusCode != http.StatusNotFound {
		t.Error("an end:", no.Status)
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
	for lines.Scan() { // until the program closes the connection
	}
	if token := strings.Split(at, "/")[3]; len(token) < 26 || strings.Contains(r.log.String(), token) {
		t.Errorf("the token %q, and the log: %s", token, r.log)
	}
}

// TestPageInSocket: a unix socket has a page, too.
func TestPageInSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	r := run(t, web(t), "--page", "unix:"+path)
	r.port(t, "socks")
	if at := r.port(t, "page"); !strings.HasPrefix(at, "http://localhost/") {
		t.Error(at)
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
}

// TestPageIsForThisMachine: other addresses are mistakes of the settings.
func TestPageIsForThisMachine(t *testing.T) {
	for s, ok := range map[string]bool{"127.0.0.1:0": true, "[::1]:80": true, "9060": true, "unix:/run/x": true, "0.0.0.0:80": false, "192.0.2.1:80": false, "[::]:80": false, "unix:": false, "x": false} {
		if err := checkPage(s); (err == nil) != ok || err != nil && !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", s, err)
		}
	}
}
