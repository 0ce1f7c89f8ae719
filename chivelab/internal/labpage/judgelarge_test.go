package labpage_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestJudgeLarge has Chromium show a network of 100 nodes, whose client tells 1000 events a second: each node has its row and
// its place in the graph, figures are the nodes' metrics, a relay that ends shows as ended within a second, and the
// browser is not kept busy by what comes.
func TestJudgeLarge(t *testing.T) {
	judged(t)
	nw, at := large(t)
	ctx := browser(t)
	var rows, circles, events, circuits int
	var work float64
	// A long task (W3C) keeps a browser from answering for 50 ms and more: the share of the time that all of them took.
	long := `new Promise(done => {
  let all = 0;
  const from = Number(document.body.dataset.states), began = performance.now();
  new PerformanceObserver(l => { for (const e of l.getEntries()) all += e.duration; }).observe({ type: 'longtask' });
  const look = () => Number(document.body.dataset.states) >= from + 8 ? done(all / (performance.now() - began)) : setTimeout(look, 50);
  look();
})`
	if err := chromedp.Run(ctx, chromedp.EmulateViewport(1300, 900), dark("light"), chromedp.Navigate(at), states("2"), chromedp.Evaluate(long, &work, awaits)); err != nil {
		t.Fatal(err)
	}
	t.Logf("long tasks took %.1f %% of the browser's time", 100*work)
	const count = `document.querySelectorAll('#nodes tbody tr').length`
	if err := chromedp.Run(ctx, chromedp.Evaluate(count, &rows), chromedp.Evaluate(`document.querySelectorAll('#graph circle').length`, &circles),
		chromedp.Evaluate(`document.querySelectorAll('#events li').length`, &events), chromedp.Evaluate(`document.querySelectorAll('#circuits tbody tr').length`, &circuits), picture("large")); err != nil {
		t.Fatal(err)
	}
	if want := len(nw.Nodes()) + 1; rows != want || circles != want || want != 101 || events != 60 || circuits == 0 { // and the network's own client
		t.Errorf("%d rows, %d circles, %d events, %d circuits of %d nodes", rows, circles, events, circuits, len(nw.Nodes()))
	}
	relays, still := agree(t, ctx, nw)
	t.Logf("of %d relays, %d counted nothing meanwhile", relays, still)
	if relays != 99 || still < relays/2 {
		t.Errorf("%d relays, of which only %d counted nothing meanwhile", relays, still)
	}
	if took, live, _ := end(t, ctx, "chiverelay7"); took > 1000 || live == "" {
		t.Errorf("an ended relay showed after %.0f ms; a screen reader says %q", took, live)
	}
}
