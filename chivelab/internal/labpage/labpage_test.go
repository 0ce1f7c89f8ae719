package labpage_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/labpage"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/lab"
)

// show starts a network and its page.
func show(t *testing.T) (*lab.Network, string) {
	t.Helper()
	return showOver(t, nil, lab.Options{Authorities: 1, Relays: 4, Exits: 2, VotingInterval: 5 * time.Minute})
}

// showEmulated is show of a network over emulated links.
func showEmulated(t *testing.T) (*lab.Network, string) {
	t.Helper()
	hosts := labpage.NewHosts()
	t.Cleanup(hosts.Close)
	return showOver(t, hosts, lab.Options{Authorities: 1, Relays: 4, Exits: 2, VotingInterval: 5 * time.Minute, Host: hosts.Host})
}

func showOver(t *testing.T, hosts *labpage.Hosts, o lab.Options) (*lab.Network, string) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	nw, err := lab.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the network started in %v", time.Since(began))
	at, stop, err := daemon.ServePage("127.0.0.1:0", labpage.New(nw, hosts).Config(), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return nw, at
}

// counted are the metrics of a relay that the page has, too.
func counted(t *testing.T, n *lab.Node) page.Figures {
	t.Helper()
	var b bytes.Buffer
	if err := n.Relay().WriteMetricsJSON(&b); err != nil {
		t.Fatal(err)
	}
	var s metrics.Snapshot
	if err := json.Unmarshal(b.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	at := func(name string) uint64 {
		i := slices.IndexFunc(s.Counters, func(c metrics.CounterValue) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("no metric %s", name)
		}
		return s.Counters[i].Value
	}
	return page.Figures{CellsIn: at("chive_relay_cells_in_total"), CellsOut: at("chive_relay_cells_out_total"), BytesIn: at("chive_relay_link_in_bytes_total"), BytesOut: at("chive_relay_link_out_bytes_total")}
}

// watcher reads the states that the page sends.
type watcher struct {
	t     *testing.T
	lines *bufio.Reader
}

func watch(t *testing.T, at string) *watcher {
	t.Helper()
	a, err := http.Get(at + "events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return &watcher{t, bufio.NewReader(a.Body)}
}

// until returns the first state that is as wanted, and all events before it.
func (w *watcher) until(ok func(*page.State) bool) (*page.State, []page.Event) {
	w.t.Helper()
	var all []page.Event
	for kind := ""; ; {
		line, err := w.lines.ReadString('\n')
		if err != nil {
			w.t.Fatal(err)
		}
		if k, is := strings.CutPrefix(line, "event: "); is {
			kind = strings.TrimSpace(k)
		}
		text, is := strings.CutPrefix(line, "data: ")
		if !is {
			continue
		}
		var st page.State
		var h struct{ Events []page.Event }
		if kind == "state" {
			err = json.Unmarshal([]byte(text), &st)
		} else {
			err = json.Unmarshal([]byte(text), &h)
		}
		if err != nil {
			w.t.Fatal(err, text)
		}
		if all = append(all, h.Events...); kind == "state" && ok(&st) {
			return &st, all
		}
	}
}

// post asks as the page itself does.
func post(t *testing.T, at, what string, form url.Values) (status int, text string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+what, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://"+u.Host)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// TestPageTellsTheTruth: each relay's figures lie between its metrics of before and after; links and
// circuits name nodes; what was fetched is seen; and a node that is ended is seen as that.
func TestPageTellsTheTruth(t *testing.T) {
	nw, at := show(t)
	w := watch(t, at)
	w.until(func(*page.State) bool { return true })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := nw.Fetch(ctx, 100_000); err != nil {
		t.Fatal(err)
	}
	before := map[string]page.Figures{}
	began := time.Now()
	for _, n := range nw.Nodes() {
		if n.Relay() != nil {
			before[n.Name] = counted(t, n)
		}
	}
	st, events := w.until(func(s *page.State) bool { return s.Time.After(began) })
	names := map[string]bool{}
	for _, n := range st.Nodes {
		names[n.Name] = true
	}
	for _, node := range nw.Nodes() {
		if node.Relay() == nil {
			continue
		}
		i := slices.IndexFunc(st.Nodes, func(n page.Node) bool { return n.Name == node.Name })
		if i < 0 || st.Nodes[i].Figures == nil {
			t.Fatalf("%s has no figures", node.Name)
		}
		low, got, high := before[node.Name], st.Nodes[i].Figures, counted(t, node)
		for _, v := range [][3]uint64{{low.CellsIn, got.CellsIn, high.CellsIn}, {low.CellsOut, got.CellsOut, high.CellsOut}, {low.BytesIn, got.BytesIn, high.BytesIn}, {low.BytesOut, got.BytesOut, high.BytesOut}} {
			if v[1] < v[0] || v[1] > v[2] || v[0] == 0 {
				t.Errorf("%s: the page has %d, its metrics had %d before and have %d now", node.Name, v[1], v[0], v[2])
			}
		}
	}
	if i := slices.IndexFunc(st.Nodes, func(n page.Node) bool { return n.Role == "authority" }); st.Nodes[i].Figures == nil || st.Nodes[i].Figures.CellsIn == 0 || st.Nodes[i].Figures.Links == 0 {
		t.Errorf("an authority of this process: %+v", st.Nodes[i].Figures)
	}
	var carried uint64
	pairs := map[[2]string]bool{}
	for _, l := range st.Links {
		pair := [2]string{min(l.A, l.B), max(l.A, l.B)}
		if !names[l.A] || !names[l.B] || pairs[pair] {
			t.Errorf("a link between %q and %q, which is told twice: %v", l.A, l.B, pairs[pair])
		}
		pairs[pair] = true
		if l.A == "client" {
			carried += l.BytesIn // over one guard or, with Conflux, two
		}
	}
	if carried < 100_000 {
		t.Errorf("100000 bytes were fetched, and the client's links have %d", carried)
	}
	if len(st.Circuits) == 0 {
		t.Error("no circuit")
	}
	for _, c := range st.Circuits {
		for _, h := range c.Hops {
			if !names[h.Node] || h.Handshake == "" || h.Layer == "" {
				t.Errorf("circuit %d: %+v", c.ID, h)
			}
		}
	}
	if !slices.ContainsFunc(events, func(e page.Event) bool { return e.Kind == "stream" && e.State == "open" }) {
		t.Errorf("no event of the stream among %d", len(events))
	}
	text, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	if target := nw.URL(1); strings.Contains(string(text), strings.Split(target, "/")[2]) {
		t.Error("the page names a destination")
	}

	for _, want := range []int{http.StatusNoContent, http.StatusConflict} { // it ends once
		if status, text := post(t, at, "end", url.Values{"node": {"chiverelay1"}}); status != want {
			t.Fatalf("%d %s", status, text)
		}
	}
	st, _ = w.until(func(s *page.State) bool {
		return slices.ContainsFunc(s.Nodes, func(n page.Node) bool { return n.Name == "chiverelay1" && n.State == page.Ended })
	})
	for _, l := range st.Links {
		if l.A == "chiverelay1" {
			t.Errorf("an ended node tells of a link to %s", l.B)
		}
	}
}
