package labpage_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browser starts headless Chromium. CHIVE_PAGE_JUDGE is set by make judge-page: else the judge does not sit.
func browser(t *testing.T) context.Context {
	t.Helper()
	if os.Getenv("CHIVE_PAGE_JUDGE") == "" {
		t.Skip("the judge of the page sits in make judge-page only")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("SKIPPED, AND NOTHING IS JUDGED: there is no chromium (apt-get install chromium)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

// picture writes a picture of the whole page into the directory of pictures.
func picture(name string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		var b []byte
		if err := chromedp.FullScreenshot(&b, 100).Do(ctx); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(os.Getenv("CHIVE_PAGE_JUDGE"), name+".png"), b, 0o600)
	})
}

// dark chooses dark or light.
func dark(on string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: on}})
}

// TestJudgePage has Chromium show the page of a network: figures are the nodes' metrics, no text is
// wider than a phone, axe-core finds nothing, and a node that is ended by the keyboard shows as ended.
func TestJudgePage(t *testing.T) {
	ctx := browser(t)
	nw, at := show(t)
	axe, err := os.ReadFile(filepath.Join(os.Getenv("CHIVE_PAGE_JUDGE"), "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	states := func(n string) chromedp.Action {
		return chromedp.Poll(`Number(document.body.dataset.states ?? 0) >= `+n, nil, chromedp.WithPollingTimeout(time.Minute))
	}
	if err := chromedp.Run(ctx, chromedp.EmulateViewport(1300, 900), dark("light"), chromedp.Navigate(at), states("3")); err != nil {
		t.Fatal(err)
	}
	if _, err := nw.Fetch(ctx, 300_000); err != nil {
		t.Fatal(err)
	}
	figures := map[string][2]string{}
	low := map[string]uint64{}
	for _, n := range nw.Nodes() {
		if n.Relay() != nil {
			low[n.Name] = counted(t, n).CellsIn
		}
	}
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.body.dataset.states = 0`, nil), states("2"),
		chromedp.Evaluate(`Object.fromEntries([...document.querySelectorAll('#nodes tbody tr')].map(r => [r.dataset.key, [r.cells[7].textContent, r.cells[8].textContent]]))`, &figures)); err != nil {
		t.Fatal(err)
	}
	for _, n := range nw.Nodes() {
		if n.Relay() == nil {
			continue
		}
		var got uint64
		if err := json.Unmarshal([]byte(strings.ReplaceAll(figures[n.Name][0], ",", "")), &got); err != nil {
			t.Fatalf("%s: %q", n.Name, figures[n.Name])
		}
		if high := counted(t, n).CellsIn; got < low[n.Name] || got > high {
			t.Errorf("%s: the page shows %d cells, its metrics had %d before and have %d now", n.Name, got, low[n.Name], high)
		}
	}
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.querySelector('#circuits button').click()`, nil), picture("light")); err != nil {
		t.Fatal(err)
	}
	judge := func(what string) {
		t.Helper()
		var found []struct {
			ID    string
			Help  string
			Nodes []struct{ HTML string }
		}
		// The page's policy lets no code in but its own: the debugger may.
		err := chromedp.Run(ctx, chromedp.Evaluate(string(axe)+`;0`, nil),
			chromedp.Evaluate(`axe.run().then(r => r.violations.map(v => ({ID: v.id, Help: v.help, Nodes: v.nodes.map(n => ({HTML: n.html}))})))`, &found, chromedp.EvalAsValue, awaits))
		if err != nil {
			t.Fatal(what, err)
		}
		for _, f := range found {
			t.Errorf("%s: axe-core: %s (%s): %d, such as %s", what, f.ID, f.Help, len(f.Nodes), f.Nodes[0].HTML)
		}
	}
	judge("light")
	if err := chromedp.Run(ctx, dark("dark"), picture("dark")); err != nil {
		t.Fatal(err)
	}
	judge("dark")
	var wide, inner int
	if err := chromedp.Run(ctx, chromedp.EmulateViewport(360, 740), chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide), chromedp.Evaluate(`innerWidth`, &inner), picture("phone")); err != nil {
		t.Fatal(err)
	}
	if wide > inner {
		t.Errorf("on a phone the page is %d wide, not %d", wide, inner)
	}
	judge("phone")

	var took float64
	end := `new Promise(done => {
  window.confirm = () => true;
  const r = document.querySelector('#nodes tr[data-key="chiverelay1"]'), began = performance.now();
  const look = () => r.cells[2].textContent.startsWith('ended') ? done(performance.now() - began) : requestAnimationFrame(look);
  r.querySelector('button.end').focus();
  r.querySelector('button.end').click();
  look();
})`
	if err := chromedp.Run(ctx, chromedp.EmulateViewport(1300, 900), chromedp.Evaluate(end, &took, awaits)); err != nil {
		t.Fatal(err)
	}
	t.Logf("an ended relay showed after %.0f ms", took)
	var live, focus string
	if err := chromedp.Run(ctx, chromedp.Text("#live", &live, chromedp.ByQuery), chromedp.Evaluate(`document.activeElement.textContent`, &focus), picture("ended")); err != nil {
		t.Fatal(err)
	}
	if took > 1000 || !strings.Contains(live, "chiverelay1: ended") || focus != "chiverelay1" {
		t.Errorf("after %.0f ms; a screen reader says %q; the focus is on %q", took, live, focus)
	}
}
