package watch

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/relay"
)

var update = flag.Bool("update", false, "write the pages of testdata again")

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// client is a client with something in every pane.
func client() *Snapshot {
	id := func(c string) string { return strings.Repeat(c, 40) }
	return &Snapshot{
		Role: "proxy", Version: "v0.9.0",
		Client: &chive.Status{
			Network: "lab", Started: now.Add(-2*time.Hour - time.Minute), Channels: 2, Circuits: 3, Building: 1, Streams: 2, LinkIn: 5_000_000, LinkOut: 60_000,
			Bootstrap: chive.BootstrapStatus{Percent: 100, Ready: true},
			Directory: chive.DirectoryStatus{ValidAfter: now.Add(-50 * time.Minute), ValidUntil: now.Add(130 * time.Minute), Relays: 9, Usable: 8},
			Guards: []chive.GuardStatus{
				{Fingerprint: id("A"), Nickname: "guardian", Confirmed: true, Reachable: "yes", Usable: true},
				{Fingerprint: id("B"), Reachable: "no"}, {Fingerprint: id("C"), Nickname: "spare", Reachable: "untried", Usable: true},
			},
			Bridges: []chive.BridgeStatus{{Transport: "obfs4", Problem: "refused"}, {Fingerprint: id("A"), Nickname: "guardian", Usable: true}},
			Open: []chive.CircuitStatus{
				{ID: 7, Path: []string{id("A"), id("D"), id("E")}, Nicknames: []string{"guardian", "middle", ""}, Hops: []chive.HopProtection{
					{Handshake: "pq768", PQ: "pq768", Carriage: "A"}, {Handshake: "ntor"}, {Handshake: "ntor-v3", PQ: "pq768", Carriage: "B"}}},
				{ID: 1234567, Path: []string{id("A"), id("B")}},
			},
			Carried: []chive.StreamStatus{{ID: 3, Circuit: 7, Opened: now.Add(-90 * time.Second), Read: 123456, Written: 78}, {ID: 9, Circuit: 7, Opened: now, Read: 1}},
		},
		Onions: []chive.OnionStatus{
			{Name: "shop", Address: strings.Repeat("a", 56) + ".onion", Published: true, IntroductionPoints: []string{"A", "B", "C"}, Circuits: 4, Streams: 1, Uploaded: now.Add(-time.Minute)},
			{Name: "blog", Address: strings.Repeat("b", 56) + ".onion", Problem: "no directory took the descriptor"},
		},
		Log: []string{
			`time=2026-01-02T03:04:01.123Z level=INFO msg="guard is up" guard=$AAAA…`,
			`time=2026-01-02T03:04:02.123Z level=WARN msg="a long line" text="` + strings.Repeat("long ", 30) + `"`,
			`{"time":"2026-01-02T03:04:03Z","level":"ERROR","msg":"of the other form"}`,
		},
		LastLine: 3,
	}
}

// filled returns a view with a minute of traffic.
func filled(unicode bool) *view {
	v := newView(false, unicode)
	s := client()
	total := s.Client.LinkIn
	for i := range 60 {
		s.Client.LinkIn = total - uint64(60-i)*uint64(60-i)*100
		v.take(s, nil, now.Add(time.Duration(i-60)*time.Second))
		s.Log = nil
	}
	s.Client.LinkIn = total
	v.take(s, nil, now)
	return v
}

// golden compares rows with a file of testdata.
func golden(t *testing.T, name string, rows []string) {
	t.Helper()
	got := strings.Join(rows, "\n") + "\n"
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

// bare removes styles, which are the only control codes of a row.
var bare = regexp.MustCompile("\x1b\\[[0-9;]*m")

// check checks what holds for every page: its size, and what characters it has.
func check(t *testing.T, rows []string, columns, height int) []string {
	t.Helper()
	if len(rows) != height {
		t.Errorf("%d rows, not %d", len(rows), height)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = bare.ReplaceAllString(r, "")
		if n := utf8.RuneCountInString(out[i]); n != columns {
			t.Errorf("%dx%d: row %d has %d columns: %q", columns, height, i, n, r)
		}
		if j := strings.IndexFunc(out[i], func(r rune) bool { return (r < ' ' || r > '~') && !slices.Contains(blocks, r) }); j >= 0 {
			t.Errorf("row %d has %q", i, out[i][j:])
		}
	}
	return out
}

func TestPages(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {40, 12}, {130, 40}} {
		v := filled(true)
		var all []string
		for i := range v.panes() {
			v.press(key('1' + i))
			all = append(all, check(t, v.page(size[0], size[1], now), size[0], size[1])...)
		}
		golden(t, fmt.Sprintf("client-%dx%d.txt", size[0], size[1]), all)
	}
	v := filled(false) // without Unicode
	golden(t, "ascii.txt", check(t, v.page(80, 24, now), 80, 24))
	v.colours = true
	v.press('?')
	golden(t, "help-colours.txt", v.page(80, 24, now))
}

func TestOtherPages(t *testing.T) {
	var all []string
	for _, s := range []*Snapshot{
		{Role: "relay", Version: "v1", Text: "network    lab\nrelay      r1\n" + strings.Repeat("x", 100) + "\n", Relay: &relay.Status{Nickname: "r1", Network: "lab", Started: now.Add(-time.Minute), BytesIn: 600, BytesOut: 60}},
		{Role: "authority", Version: "v1", Text: "network    lab\n", Authority: &authority.Status{Nickname: "a1", Network: "lab", Started: now}},
		{Role: "proxy", Version: "v1", Client: &chive.Status{Network: "lab", Started: now, Bootstrap: chive.BootstrapStatus{Percent: 30, Stage: "asking", Problem: "no route"}}},
		{Role: "proxy", Version: "v1", Client: &chive.Status{Network: "lab", Started: now, Bootstrap: chive.BootstrapStatus{Percent: 100, Stage: "waiting"},
			Directory: chive.DirectoryStatus{ValidAfter: now.Add(-72 * time.Hour), ValidUntil: now.Add(-69 * time.Hour)}}},
	} {
		v := newView(false, false)
		v.take(s, nil, now)
		all = append(all, check(t, v.page(60, 14, now), 60, 14)...)
	}
	v := newView(false, false)
	all = append(all, check(t, v.page(60, 4, now), 60, 4)...)
	v.take(nil, errors.New("no proxy runs"), now)
	all = append(all, check(t, v.page(60, 4, now), 60, 4)...)
	golden(t, "others.txt", all)
}

// TestEverySize: no size of a terminal breaks a page.
func TestEverySize(t *testing.T) {
	v := filled(true)
	for columns := 0; columns < 140; columns += 1 + columns/8 {
		for rows := range 30 {
			for i := range v.panes() {
				v.press(key('1' + i))
				check(t, v.page(columns, rows, now), max(columns, 1), max(rows, 1))
			}
		}
	}
}

// hostile replaces every text in a snapshot.
func hostile(s *Snapshot, text string) {
	s.Role, s.Version, s.Text = text, text, text+"\n"+text
	s.Log = []string{text, "time=2026-01-02T03:04:01Z level=" + text + " msg=" + text}
	if c := s.Client; c != nil {
		c.Network, c.Bootstrap = text, chive.BootstrapStatus{Stage: text, Problem: text}
		for i := range c.Guards {
			c.Guards[i] = chive.GuardStatus{Fingerprint: text, Nickname: text, Reachable: text}
		}
		for i := range c.Bridges {
			c.Bridges[i] = chive.BridgeStatus{Transport: text, Fingerprint: text, Nickname: text, Problem: text}
		}
		for i := range c.Open {
			c.Open[i] = chive.CircuitStatus{Path: []string{text, text}, Nicknames: []string{text, ""}, Hops: []chive.HopProtection{{Handshake: text, PQ: text, Carriage: text}}}
		}
		for i := range s.Onions {
			s.Onions[i] = chive.OnionStatus{Name: text, Address: text, Problem: text, IntroductionPoints: []string{text}}
		}
	}
	if s.Relay != nil {
		s.Relay.Nickname, s.Relay.Network = text, text
	}
	if s.Authority != nil {
		s.Authority.Nickname, s.Authority.Network = text, text
	}
}

// FuzzHostile: whatever relays are called and problems say, only printable characters and
// the styles of this package reach the terminal.
func FuzzHostile(f *testing.F) {
	for _, s := range []string{"\x1b]0;title\x07", "\x1b[2J\x1b[31m", "\u009b2J", "a\r\nb", "\u202e", "宽", "\xff\xfe", "\x1bP+q\x1b\\", strings.Repeat("x", 5000), ""} {
		f.Add(s, 80, 24)
		f.Add(s, 33, 9)
	}
	f.Fuzz(func(t *testing.T, text string, columns, rows int) {
		columns, rows = 1+abs(columns)%200, 1+abs(rows)%60
		for _, s := range []*Snapshot{client(), {Relay: new(relay.Status)}, {Authority: new(authority.Status)}} {
			hostile(s, text)
			v := newView(true, true)
			v.take(s, nil, now)
			v.tell(text, now)
			for i := range v.panes() {
				v.press(key('1' + i))
				check(t, v.page(columns, rows, now), columns, rows)
			}
			v.take(nil, errors.New(text), now)
			check(t, v.page(columns, rows, now.Add(time.Minute)), columns, rows)
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }

func TestKeys(t *testing.T) {
	for in, want := range map[string][]key{
		"q": {'q'}, "\x1b[A\x1bOBj": {keyUp, keyDown, 'j'}, "\x1b": {keyEscape}, "\x1b[5~\x1b[6~": {keyPageUp, keyPageDown},
		"\x1b[200~q": {'q'}, "\x1b[1;5C": nil, "\x1b[": nil, "\x1b\x1b[Z": {keyEscape, keyBackTab}, "\x03\t": {keyCtrlC, keyTab}, "": nil,
	} {
		if got := parseKeys([]byte(in)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, not %v", in, got, want)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[1;5Cq\x1b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := parseKeys(b); len(got) > len(b) {
			t.Errorf("%d keys from %d bytes", len(got), len(b))
		}
	})
}

// TestScroll: panes scroll within what they have, and the log follows its end unless
// somebody reads what is above it.
func TestScroll(t *testing.T) {
	v := newView(false, false)
	s := &Snapshot{Relay: &relay.Status{Started: now}}
	for i := range 50 {
		s.Log = append(s.Log, fmt.Sprintf("line %02d", i))
	}
	v.take(s, nil, now)
	v.press('2')
	body := func() (first, last string) {
		rows := check(t, v.page(40, 10, now), 40, 10)
		return strings.TrimSpace(rows[len(rows)-1-v.room]), strings.TrimSpace(rows[len(rows)-2])
	}
	want := func(first, last int) {
		t.Helper()
		a, b := body()
		if a != fmt.Sprintf("line %02d", first) || b != fmt.Sprintf("line %02d", last) {
			t.Errorf("%s to %s, not %d to %d", a, b, first, last)
		}
	}
	body()
	n := v.room
	want(50-n, 49)
	v.press(keyUp)
	want(49-n, 48)
	s.Log = []string{"line 50"}
	v.take(s, nil, now)
	want(49-n, 48)
	v.press(keyHome)
	want(0, n-1)
	v.press(keyPageDown)
	want(n-1, 2*n-2)
	v.press(keyEnd)
	want(51-n, 50)
	v.press(keyDown)
	want(51-n, 50)
}

// TestHistory: rates are by the second, and begin anew with another process.
func TestHistory(t *testing.T) {
	var h history
	h.add(100, now)
	h.add(300, now.Add(2*time.Second))
	if !slices.Equal(h.rates, []float64{100, 100}) || h.now() != 100 {
		t.Error(h.rates)
	}
	if got := h.graph(4, 2, ascii); !slices.Equal(got, []string{"  ##", "  ##"}) {
		t.Errorf("%q", got)
	}
	h.add(1300, now.Add(3*time.Second))
	if got := h.graph(4, 2, ascii); !slices.Equal(got, []string{"   #", " ,,#"}) {
		t.Errorf("%q", got)
	}
	for i := range 2 * remembered {
		h.add(1300, now.Add(time.Duration(4+i)*time.Second))
	}
	if len(h.rates) != remembered {
		t.Error(len(h.rates))
	}
	h.add(5, now.Add(time.Hour))
	if len(h.rates) != 0 || h.now() != 0 {
		t.Error(h.rates)
	}
}

// fake is a terminal and a running program.
type fake struct {
	mu      sync.Mutex
	rows    []string
	drawn   int
	pressed chan key
	reads   int
	after   []uint64
	renewed int
	fail    error
}

func (f *fake) size() (int, int)         { return 80, 24 }
func (f *fake) keys() <-chan key         { return f.pressed }
func (f *fake) resized() <-chan struct{} { return nil }
func (f *fake) draw(rows []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows, f.drawn = rows, f.drawn+1
}

func (f *fake) Read(_ context.Context, after uint64) (*Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	f.after = append(f.after, after)
	return client(), f.fail
}

func (f *fake) NewIdentity(context.Context) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed++; f.renewed > 1 {
		return 7 * time.Second, nil
	}
	return 0, nil
}

func (f *fake) sees(t *testing.T, text string, want bool) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.Contains(strings.Join(f.rows, "\n"), text) != want {
		t.Errorf("%q is on the page: %v\n%s", text, !want, strings.Join(f.rows, "\n"))
	}
}

// TestLoop goes through a session.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pressed: make(chan key)}
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- loop(ctx, f, f, newView(false, true)) }()
		synctest.Wait()
		f.sees(t, "proxy v0.9.0", true)
		time.Sleep(2*interval + interval/2)
		synctest.Wait()
		if !slices.Equal(f.after, []uint64{0, 3, 3}) {
			t.Errorf("asked for the log after %v", f.after)
		}
		f.pressed <- 'p'
		synctest.Wait()
		f.sees(t, "PAUSED", true)
		reads := f.reads
		time.Sleep(10 * interval)
		synctest.Wait()
		if f.reads != reads {
			t.Error("it reads while it is paused")
		}
		f.pressed <- 'p'
		f.pressed <- 'n'
		synctest.Wait()
		f.sees(t, "new identity: new", true)
		f.pressed <- 'n'
		synctest.Wait()
		f.sees(t, "possible in 7s", true)
		f.mu.Lock()
		f.fail = errors.New("it has gone")
		f.mu.Unlock()
		time.Sleep(10 * interval)
		synctest.Wait()
		f.sees(t, "it has gone", true)
		f.sees(t, "possible in 7s", false)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, end := range []key{'q', keyCtrlC} {
			go func() { done <- loop(t.Context(), f, f, newView(false, true)) }()
			f.pressed <- end
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		go func() { done <- loop(t.Context(), f, f, newView(false, true)) }()
		close(f.pressed) // the terminal has gone
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestRunWithoutTerminal: a file or a pipe gets an error, and no control codes.
func TestRunWithoutTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Run(t.Context(), &fake{}, f, f); !errors.Is(err, chive.ErrConfig) || !strings.Contains(err.Error(), "chive status") {
		t.Error(err)
	}
	if st, err := f.Stat(); err != nil || st.Size() != 0 {
		t.Error(st.Size(), err)
	}
}
