package labpage_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/lab"
)

// states waits until the page has shown so many states.
func states(n string) chromedp.Action {
	return chromedp.Poll(`Number(document.body.dataset.states ?? 0) >= `+n, nil, chromedp.WithPollingTimeout(time.Minute))
}

// agree compares the cells that the page shows of each relay with the relay's metrics, just before and just after. It returns
// how many relays there are, and how many of them had nothing to count meanwhile: of these the page shows the very numbers.
func agree(t *testing.T, ctx context.Context, nw *lab.Network) (relays, still int) {
	t.Helper()
	before := map[string]page.Figures{}
	for _, n := range nw.Nodes() {
		if n.Relay() != nil {
			before[n.Name] = counted(t, n)
		}
	}
	shown := map[string][2]string{}
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.body.dataset.states = 0`, nil), states("2"),
		chromedp.Evaluate(`Object.fromEntries([...document.querySelectorAll('#nodes tbody tr')].map(r => [r.dataset.key, [r.cells[7].textContent, r.cells[8].textContent]]))`, &shown)); err != nil {
		t.Fatal(err)
	}
	for _, n := range nw.Nodes() {
		low, ok := before[n.Name]
		if !ok {
			continue
		}
		relays++
		high := counted(t, n)
		if low.CellsIn == high.CellsIn && low.CellsOut == high.CellsOut {
			still++
		}
		for i, bounds := range [][2]uint64{{low.CellsIn, high.CellsIn}, {low.CellsOut, high.CellsOut}} {
			got, err := strconv.ParseUint(strings.ReplaceAll(shown[n.Name][i], ",", ""), 10, 64)
			if err != nil {
				t.Fatalf("%s: %q", n.Name, shown[n.Name])
			}
			if got < bounds[0] || got > bounds[1] {
				t.Errorf("%s: the page shows %d cells, its metrics had %d before and have %d now (in, out: %d)", n.Name, got, bounds[0], bounds[1], i)
			}
		}
	}
	return relays, still
}

// end ends a node by its button, and returns after how many milliseconds the page showed that, what a screen reader
// says then, and where the focus is.
func end(t *testing.T, ctx context.Context, node string) (took float64, live, focused string) {
	t.Helper()
	press := `new Promise(done => {
  window.confirm = () => true;
  const r = document.querySelector('#nodes tr[data-key="` + node + `"]'), began = performance.now();
  const look = () => r.cells[2].textContent.startsWith('ended') ? done(performance.now() - began) : requestAnimationFrame(look);
  r.querySelector('button.end').focus();
  r.querySelector('button.end').click();
  look();
})`
	if err := chromedp.Run(ctx, chromedp.Evaluate(press, &took, awaits), chromedp.Text("#live", &live, chromedp.ByQuery),
		chromedp.Evaluate(`document.activeElement.textContent`, &focused)); err != nil {
		t.Fatal(err)
	}
	t.Logf("an ended relay showed after %.0f ms", took)
	return took, live, focused
}
