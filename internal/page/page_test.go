package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// served is a page that is served to a test.
type served struct {
	*Page
	url, origin string
	asked       atomic.Int64 // states
	follows     atomic.Int64 // rounds of events that run
	ended       chan string
	changed     chan Rules
	traced      atomic.Int64
	stop        func() // waits until the page has ended; may be called again
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{ended: make(chan string, 10), changed: make(chan Rules, 10)}
	s.Page = New(Config{
		State:  func() *State { s.asked.Add(1); return &State{Kind: Network, Title: "of the test"} },
		Follow: func(ctx context.Context, _ func(Event)) { s.follows.Add(1); <-ctx.Done(); s.follows.Add(-1) },
		End: func(node string) error {
			if node == "" {
				return fault.New(fault.Config, "no node has this name")
			}
			s.ended <- node
			return nil
		},
		Change: func(node string, r Rules) error {
			if node == "" {
				return fault.New(fault.Config, "no node has this name")
			}
			s.changed <- r
			return nil
		},
		Trace: func(ctx context.Context) (*Traced, error) {
			switch s.traced.Add(1) {
			case 1:
				return nil, fault.New(fault.Network, "the first time")
			case 3:
				s.ended <- "a trace waits"
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &Traced{Text: "GET /"}, nil
		},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Serve(ctx, l); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	s.url, s.origin = s.URL(l.Addr()), "http://"+l.Addr().String()
	s.stop = func() { cancel(); done.Wait() }
	t.Cleanup(s.stop)
	return s
}

// ask sends a request and returns status, body and headers of the answer.
func ask(t *testing.T, method, at string, body url.Values, header ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b), a.Header
}

// TestWhoMayAsk: only who has the token, and asks by a name of this machine, from this very page.
func TestWhoMayAsk(t *testing.T) {
	s := serve(t)
	node := url.Values{"node": {"relay0"}}
	for _, test := range []struct {
		what, method, path string
		body               url.Values
		header             []string
		want               int
	}{
		{"the page", "GET", "", nil, nil, 200},
		{"its style", "GET", "page.css", nil, nil, 200},
		{"its code", "GET", "page.js", nil, []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"another file", "GET", "server.go", nil, nil, 404},
		{"a file above", "GET", "..%2fserver.go", nil, nil, 404},
		{"a foreign Host", "GET", "", nil, []string{"Host", "evil.example"}, 403},
		{"an address that is not of this machine", "GET", "events", nil, []string{"Host", "192.0.2.1:80"}, 403},
		{"a foreign Origin", "GET", "events", nil, []string{"Origin", "http://evil.example"}, 403},
		{"a page of another port", "GET", "events", nil, []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"a write to the page", "POST", "", nil, []string{"Origin", s.origin}, 405},
		{"an end by GET", "GET", "end?node=relay0", nil, []string{"Origin", s.origin}, 405},
		{"an end without Origin", "POST", "end", node, nil, 403},
		{"an end by another page", "POST", "end", node, []string{"Origin", "http://evil.example"}, 403},
		{"an end by a page in a sandbox", "POST", "end", node, []string{"Origin", "null"}, 403},
		{"an end of nothing", "POST", "end", url.Values{}, []string{"Origin", s.origin}, 409},
		{"an end with the name in the address", "POST", "end?node=relay0", url.Values{}, []string{"Origin", s.origin}, 409},
		{"a link without Origin", "POST", "link", url.Values{"node": {"x"}, "delay": {"0"}, "loss": {"0"}, "rate": {"0"}}, nil, 403},
		{"a link by GET", "GET", "link", nil, []string{"Origin", s.origin}, 405},
		{"a link of nothing", "POST", "link", url.Values{"delay": {"0"}, "loss": {"0"}, "rate": {"0"}}, []string{"Origin", s.origin}, 409},
		{"a link without rules", "POST", "link", url.Values{"node": {"x"}}, []string{"Origin", s.origin}, 409},
		{"a link with a rule that is no number", "POST", "link", url.Values{"node": {"x"}, "delay": {"Inf"}, "loss": {"0"}, "rate": {"0"}}, []string{"Origin", s.origin}, 409},
		{"a trace without Origin", "POST", "trace", nil, nil, 403},
		{"a trace by another page", "POST", "trace", nil, []string{"Origin", "http://evil.example"}, 403},
		{"a trace by GET", "GET", "trace", nil, []string{"Origin", s.origin}, 405},
		{"too long an end", "POST", "end", url.Values{"node": {strings.Repeat("x", maxForm)}}, []string{"Origin", s.origin}, 400},
	} {
		status, body, h := ask(t, test.method, s.url+test.path, test.body, test.header...)
		if status != test.want {
			t.Errorf("%s: %d %q, want %d", test.what, status, body, test.want)
		}
		if status == 200 && (h.Get("Content-Security-Policy") != policy || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store") {
			t.Errorf("%s: %v", test.what, h)
		}
		if strings.Contains(body, s.token) {
			t.Errorf("%s: the answer has the token", test.what)
		}
	}
	if n := s.traced.Load(); len(s.changed) != 0 || n != 0 {
		t.Errorf("%d links were changed, %d cells followed", len(s.changed), n)
	}
	for _, path := range []string{"/", "/" + s.token, "/" + s.token[1:] + "/", "/" + s.token + "x/", "//", "/x/page.js", "/" + strings.ToLower(s.token) + "/events"} {
		if status, _, _ := ask(t, "GET", s.origin+path, nil); status != 403 {
			t.Errorf("%s without the token: %d", path, status)
		}
	}
	if status, body, _ := ask(t, "POST", s.url+"end", node, "Origin", s.origin); status != 204 || len(s.ended) != 1 || <-s.ended != "relay0" {
		t.Errorf("an end: %d %q, %d ended", status, body, len(s.ended))
	}
	if n := s.asked.Load(); n != 0 {
		t.Errorf("nobody looked, and %d states were made", n)
	}
}

// TestActs: what a reader wants of a link comes in the units of the page, and a cell that was followed goes to who asked.
func TestActs(t *testing.T) {
	s := serve(t)
	status, body, _ := ask(t, "POST", s.url+"link", url.Values{"node": {"x"}, "delay": {"1.5"}, "loss": {"2"}, "rate": {"64"}}, "Origin", s.origin)
	if want := (Rules{Delay: 1500 * time.Microsecond, Loss: .02, Rate: 64_000}); status != 204 || len(s.changed) != 1 || <-s.changed != want {
		t.Errorf("%d %q, %d changed", status, body, len(s.changed))
	}
	if status, body, _ := ask(t, "POST", s.url+"trace", nil, "Origin", s.origin); status != 409 || body != "the first time\n" {
		t.Errorf("%d %q", status, body)
	}
	if status, body, h := ask(t, "POST", s.url+"trace", nil, "Origin", s.origin); status != 200 || !strings.Contains(body, `"text":"GET /"`) || h.Get("Content-Type") != "application/json" {
		t.Errorf("%d %q", status, body)
	}
}

// TestTraceHoldsUpNothing: while a cell is followed, no other is, nodes end all the same, and a reader that leaves ends it.
func TestTraceHoldsUpNothing(t *testing.T) {
	s := serve(t)
	s.traced.Store(2)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+"trace", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", s.origin)
	done := make(chan error)
	go func() {
		a, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			a.Body.Close()
		}
		done <- err
	}()
	<-s.ended // it waits
	if status, body, _ := ask(t, "POST", s.url+"trace", nil, "Origin", s.origin); status != 409 || !strings.Contains(body, "already") {
		t.Errorf("a second one: %d %q", status, body)
	}
	if status, body, _ := ask(t, "POST", s.url+"end", url.Values{"node": {"x"}}, "Origin", s.origin); status != 204 || <-s.ended != "x" {
		t.Errorf("an end: %d %q", status, body)
	}
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.stop() // it waits for the trace
	if !s.tracing.TryLock() {
		t.Error("the trace goes on")
	}
}

// TestClientHasNoActs: where nothing can be done there is no such path.
func TestClientHasNoActs(t *testing.T) {
	p := New(Config{State: func() *State { return new(State) }})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { p.Serve(ctx, l) })
	defer done.Wait()
	defer cancel()
	for _, act := range []string{"end", "link", "trace"} {
		if status, _, _ := ask(t, "POST", p.URL(l.Addr())+act, url.Values{"node": {"x"}}, "Origin", "http://"+l.Addr().String()); status != 404 {
			t.Error(act, status)
		}
	}
}

// look opens the stream of events, and reads until the first state.
func look(t *testing.T, s *served) *http.Response {
	t.Helper()
	a, err := http.Get(s.url + "events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	if a.StatusCode != 200 {
		return a
	}
	lines := bufio.NewReader(a.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			var st State
			if err := json.Unmarshal([]byte(text), &st); err != nil || st.Title != "of the test" {
				t.Fatal(err, text)
			}
			return a
		}
	}
}

// TestReadersAreBounded: one more than the bound is refused, others go on, and nothing stays after the end.
func TestReadersAreBounded(t *testing.T) {
	s := serve(t)
	for range maxReaders {
		if a := look(t, s); a.StatusCode != 200 {
			t.Fatal(a.Status)
		}
	}
	if a := look(t, s); a.StatusCode != 503 {
		t.Error(a.Status)
	}
	s.stop()
	if s.follows.Load() != 0 || len(s.hub.readers) != 0 || s.hub.round != nil {
		t.Errorf("after the end: %d rounds, %d readers", s.follows.Load(), len(s.hub.readers))
	}
}

// TestNothingWithoutReaders: on virtual time, the functions are called while somebody looks, and not before or after.
func TestNothingWithoutReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, rounds := 0, 0
		h := hub{
			state:  func() *State { asked++; return new(State) },
			follow: func(ctx context.Context, _ func(Event)) { rounds++; <-ctx.Done(); rounds-- },
		}
		time.Sleep(time.Hour)
		if asked != 0 || rounds != 0 {
			t.Fatal(asked, rounds)
		}
		one, err := h.join()
		if err != nil {
			t.Fatal(err)
		}
		two, err := h.join()
		if err != nil {
			t.Fatal(err)
		}
		var got int
		go func() {
			for range one.c {
				got++
			}
		}()
		go func() {
			for range two.c {
			}
		}()
		time.Sleep(10*time.Second + tick/2)
		synctest.Wait()
		if asked < 11 || asked > 12 || got < 11 || rounds != 1 {
			t.Errorf("in ten seconds: %d states, %d came, %d rounds", asked, got, rounds)
		}
		h.leave(one)
		h.leave(two)
		synctest.Wait()
		asked = 0
		time.Sleep(time.Hour)
		if asked != 0 || rounds != 0 {
			t.Errorf("nobody looks any more: %d states, %d rounds", asked, rounds)
		}
		three, err := h.join() // and again
		if err != nil {
			t.Fatal(err)
		}
		<-three.c
		h.leave(three)
		h.close()
		if _, err := h.join(); !fault.Is(err, fault.Closed) || h.enter() {
			t.Error("closed:", err)
		}
	})
}

// TestSlowReader: who does not read is dropped, and the others miss nothing.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hub{state: func() *State { return new(State) }}
		slow, err := h.join()
		if err != nil {
			t.Fatal(err)
		}
		quick, err := h.join()
		if err != nil {
			t.Fatal(err)
		}
		got, open := 0, true
		go func() {
			for range quick.c {
				got++
			}
			open = false
		}()
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if got < 59 || !open {
			t.Errorf("the quick one got %d in a minute", got)
		}
		n := 0
		for range slow.c { // it is closed
			n++
		}
		if n != behind {
			t.Errorf("the slow one was kept for %d messages, not %d", n, behind)
		}
		h.leave(slow)
		h.leave(quick)
		h.close()
	})
}

// TestManyEvents: of more events than can be shown, those above the bound are counted.
func TestManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := make(chan int)
		h := hub{state: func() *State { return new(State) }, follow: func(ctx context.Context, heard func(Event)) {
			for {
				select {
				case n := <-tell:
					for i := range n {
						heard(Event{Kind: "stream", ID: uint64(i)})
					}
				case <-ctx.Done():
					heard(Event{ID: 1}) // too late
					return
				}
			}
		}}
		r, err := h.join()
		if err != nil {
			t.Fatal(err)
		}
		<-r.c // the first state
		tell <- maxEvents + 50
		var m happened
		for b := range r.c {
			if text, ok := strings.CutPrefix(string(b), "event: events\n"); ok {
				_, data, _ := strings.Cut(text, "data: ")
				if err := json.Unmarshal([]byte(data), &m); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		if len(m.Events) != maxEvents || m.Lost != 50 || m.Events[7].ID != 7 {
			t.Errorf("%d events, %d lost", len(m.Events), m.Lost)
		}
		h.leave(r)
		h.close()
		if len(h.events) != 0 {
			t.Error("an event came after the end")
		}
	})
}

// TestListeners: a page is for this machine.
func TestListeners(t *testing.T) {
	for _, a := range []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv6loopback}, &net.UnixAddr{Name: "x", Net: "unix"}} {
		if err := CheckListener(a); err != nil {
			t.Error(a, err)
		}
	}
	for _, a := range []net.Addr{&net.TCPAddr{IP: net.IPv4zero}, &net.TCPAddr{IP: net.IPv6zero}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}} {
		if err := CheckListener(a); !fault.Is(err, fault.Config) {
			t.Error(a, err)
		}
	}
}
