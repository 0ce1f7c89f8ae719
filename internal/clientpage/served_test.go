package clientpage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/page"
)

// serve serves the dashboard of a client, as chive proxy --page does, and returns its address.
func serve(t *testing.T, f *fake) (at string) {
	t.Helper()
	p := page.New(page.Config{
		State:  func() *page.State { return State(f) },
		Follow: func(ctx context.Context, heard func(page.Event)) { Follow(ctx, own, f, heard) },
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := p.Serve(ctx, l); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); served.Wait() })
	return p.URL(l.Addr())
}

// ask sends a request, with headers in pairs. The caller closes the answer's body.
func ask(t *testing.T, method, at string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestStrangers: without the token, by another name or from another page, nobody learns anything of the client, and nobody
// may act.
func TestStrangers(t *testing.T) {
	at := serve(t, newFake())
	origin := strings.Join(strings.Split(at, "/")[:3], "/")
	for _, test := range []struct {
		what, method, url string
		header            []string
		want              int
	}{
		{"a foreign Host", "GET", at + "events", []string{"Host", "evil.example"}, 403},
		{"a foreign Host with a port of ours", "GET", at + "events", []string{"Host", "evil.example:" + strings.Split(origin, ":")[2]}, 403},
		{"a foreign Origin", "GET", at + "events", []string{"Origin", "http://evil.example"}, 403},
		{"no Origin that is one", "GET", at + "events", []string{"Origin", "null"}, 403},
		{"another page of this machine", "GET", at + "events", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"no token", "GET", origin + "/events", nil, 403},
		{"another token", "GET", origin + "/ABCDEFGHIJKLMNOPQRSTUVWXYZ/events", nil, 403},
		{"an end", "POST", at + "end", []string{"Origin", origin}, 404},
		{"a link", "POST", at + "link", []string{"Origin", origin}, 404},
		{"a trace", "POST", at + "trace", []string{"Origin", origin}, 404},
	} {
		a := ask(t, test.method, test.url, test.header...)
		b, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != test.want || strings.Contains(string(b), first) {
			t.Errorf("%s: %d %q, %v", test.what, a.StatusCode, b, err)
		}
	}
}

// message is one message of the page: its kind, and its JSON.
func message(t *testing.T, lines *bufio.Reader) (kind, data string) {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if k, ok := strings.CutPrefix(line, "event: "); ok {
			kind = strings.TrimSpace(k)
		}
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			return kind, d
		}
	}
}

// TestNoDestinations: no answer names what a stream leads to, not when it fails either; and of more events than the bound
// the others are counted.
func TestNoDestinations(t *testing.T) {
	f := newFake()
	f.events = make(chan chive.Event, 5000)
	at := serve(t, f)
	for i := range cap(f.events) {
		f.events <- &chive.StreamEvent{Time: time.Unix(1_700_000_000, 0), ID: uint64(i), Circuit: 7, State: chive.StreamFailed, Err: errSecret}
	}
	for _, name := range []string{"", "page.js", "graph.js", "acts.js", "page.css", "nothing"} {
		a := ask(t, "GET", at+name)
		b, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || strings.Contains(string(b), "secret.example") || (a.StatusCode == 200) != (name != "nothing") {
			t.Errorf("%s: %s, %v", name, a.Status, err)
		}
	}
	a := ask(t, "GET", at+"events")
	defer a.Body.Close()
	lines := bufio.NewReader(a.Body)
	states, told, lost := 0, 0, 0
	for states == 0 || told+lost < cap(f.events) {
		kind, data := message(t, lines)
		if strings.Contains(data, "secret.example") {
			t.Fatalf("%s: %s", kind, data)
		}
		if kind == "state" {
			states++
			continue
		}
		var m struct {
			Events []page.Event
			Lost   int
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatal(err, data)
		}
		if len(m.Events) > 1000 {
			t.Errorf("%d events in one message", len(m.Events))
		}
		told, lost = told+len(m.Events), lost+m.Lost
	}
	if told == 0 || lost == 0 {
		t.Errorf("%d events were told, and %d counted", told, lost)
	}
}

// TestReaders: there is a bound of readers, the others go on, and each subscription is one for all.
func TestReaders(t *testing.T) {
	f := newFake()
	at := serve(t, f)
	var open []*http.Response
	for {
		a := ask(t, "GET", at+"events")
		defer a.Body.Close()
		if a.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if open = append(open, a); len(open) > 100 {
			t.Fatal("there is no bound")
		}
	}
	if len(open) == 0 {
		t.Fatal("nobody may read")
	}
	for i, a := range open {
		if kind, data := message(t, bufio.NewReader(a.Body)); kind != "state" || !strings.Contains(data, first) {
			t.Errorf("%d: %s %s", i, kind, data)
		}
	}
}
