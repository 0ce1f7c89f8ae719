package labpage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/chivenet/chive/internal/clientpage"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/page"
)

// hundred is a state of 100 nodes with links and circuits, as large networks have them. The nodes do not exist: what a
// browser does with so many is judged, and that takes no network.
func hundred(n uint64) *page.State {
	s := &page.State{Kind: page.Network, Title: "Laboratory", Time: time.Now(), CanTrace: true}
	name := func(i int) string { return fmt.Sprintf("node%d", i%100) }
	for i := range 100 {
		c := n * uint64(i+1)
		role := []string{"relay", "relay", "exit", "authority"}[i%4]
		s.Nodes = append(s.Nodes, page.Node{Name: name(i), Role: role, State: page.Running, CanEnd: true, Figures: &page.Figures{CellsIn: c, CellsOut: c, BytesIn: 514 * c, BytesOut: 514 * c, Links: 6}})
		for j := 1; j <= 3; j++ {
			s.Links = append(s.Links, page.Link{A: name(i), B: name(i + 7*j), Measured: true, BytesIn: 514 * c, BytesOut: 514 * c})
		}
		s.Circuits = append(s.Circuits, page.Circuit{ID: uint64(i), Client: name(i), Hops: []page.Hop{{Node: name(i + 1), Handshake: "pq768", PQ: "pq768", Carriage: "A", Layer: "cgo"}, {Node: name(i + 2), Handshake: "ntor-v3", Layer: "cgo"}}})
	}
	return s
}

// TestJudgeLarge has Chromium show 100 nodes and 1000 events a second: each node has its row and its place in the graph, and
// the browser is not kept busy by what comes.
func TestJudgeLarge(t *testing.T) {
	judged(t)
	states := uint64(0)
	at, stop, err := daemon.ServePage("127.0.0.1:0", page.Config{
		State: func() *page.State { states++; return hundred(states) },
		Follow: func(ctx context.Context, heard func(page.Event)) {
			clientpage.Follow(ctx, "client", busy{nil, ctx}, heard)
		},
	}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	ctx := browser(t)
	var rows, circles, events int
	var work float64
	// A long task (W3C) keeps a browser from answering for 50 ms and more: the share of the time that all of them took.
	long := `new Promise(done => {
  let all = 0;
  const from = Number(document.body.dataset.states), began = performance.now();
  new PerformanceObserver(l => { for (const e of l.getEntries()) all += e.duration; }).observe({ type: 'longtask' });
  const look = () => Number(document.body.dataset.states) >= from + 8 ? done(all / (performance.now() - began)) : setTimeout(look, 50);
  look();
})`
	if err := chromedp.Run(ctx, chromedp.EmulateViewport(1300, 900), dark("light"), chromedp.Navigate(at),
		chromedp.Poll(`Number(document.body.dataset.states ?? 0) >= 2`, nil, chromedp.WithPollingTimeout(time.Minute)), chromedp.Evaluate(long, &work, awaits),
		chromedp.Evaluate(`document.querySelectorAll('#nodes tbody tr').length`, &rows), chromedp.Evaluate(`document.querySelectorAll('#graph circle').length`, &circles),
		chromedp.Evaluate(`document.querySelectorAll('#events li').length`, &events), picture("large")); err != nil {
		t.Fatal(err)
	}
	t.Logf("long tasks took %.1f %% of the browser's time", 100*work)
	if rows != 100 || circles != 100 || events != 60 {
		t.Errorf("%d rows, %d circles, %d events", rows, circles, events)
	}
}
