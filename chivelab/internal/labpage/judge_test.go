package labpage_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// judged skips the test unless CHIVE_PAGE_JUDGE is set, by make judge-page.
func judged(t *testing.T) {
	t.Helper()
	if os.Getenv("CHIVE_PAGE_JUDGE") == "" {
		t.Skip("the judge of the page sits in make judge-page only")
	}
}

// browser starts headless Chromium.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("SKIPPED, AND NOTHING IS JUDGED: there is no chromium (apt-get install chromium)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithBrowserOption(chromedp.WithDialTimeout(time.Minute))) // a busy machine starts it slowly
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
	judged(t)
	nw, at := showEmulated(t)
	ctx := browser(t)
	axe, err := os.ReadFile(filepath.Join(os.Getenv("CHIVE_PAGE_JUDGE"), "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Run(ctx, chromedp.EmulateViewport(1300, 900), dark("light"), chromedp.Navigate(at), states("3")); err != nil {
		t.Fatal(err)
	}
	if _, err := nw.Fetch(ctx, 300_000); err != nil {
		t.Fatal(err)
	}
	agree(t, ctx, nw)
	// The controls are used as a reader without a mouse does: the focus, and keys.
	focus := func(what string) chromedp.Action {
		return chromedp.Evaluate(`document.querySelector('`+what+`').focus()`, nil)
	}
	var layers []string
	var request, changed, table string
	err = chromedp.Run(ctx, focus("#trace"), chromedp.KeyEvent(kb.Enter), chromedp.Poll(`!document.getElementById('trace-request').hidden`, nil, chromedp.WithPollingTimeout(time.Minute)),
		chromedp.Evaluate(`[...document.querySelectorAll('#traced tbody tr')].map(r => r.cells[1].textContent.trim())`, &layers),
		chromedp.Text("#trace-request", &request, chromedp.ByQuery),
		chromedp.SetValue("#emulated-node", "chiverelay2", chromedp.ByQuery), chromedp.SetValue(`#emulated-form [name="delay"]`, "40", chromedp.ByQuery), chromedp.SetValue(`#emulated-form [name="loss"]`, "0.5", chromedp.ByQuery),
		focus(`#emulated-form [name="delay"]`), chromedp.KeyEvent(kb.Enter),
		chromedp.Poll(`document.querySelector('#emulated tr[data-key="chiverelay2"]').cells[1].textContent === '40'`, nil, chromedp.WithPollingTimeout(time.Minute)),
		chromedp.Text("#emulated-text", &changed, chromedp.ByQuery), chromedp.Text(`#emulated tr[data-key="chiverelay2"]`, &table, chromedp.ByQuery))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(layers, []string{"3", "2", "1", "0"}) || !strings.Contains(request, "DATA on stream") || !strings.Contains(request, "GET /") || !strings.Contains(changed, "chiverelay2 is changed") || !strings.Contains(table, "0.5") {
		t.Errorf("the layers %q, the request %q, the link %q, %q", layers, request, changed, table)
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

	if err := chromedp.Run(ctx, chromedp.EmulateViewport(1300, 900)); err != nil {
		t.Fatal(err)
	}
	took, live, focused := end(t, ctx, "chiverelay1")
	if err := chromedp.Run(ctx, picture("ended")); err != nil {
		t.Fatal(err)
	}
	if took > 1000 || !strings.Contains(live, "chiverelay1: ended") || focused != "chiverelay1" {
		t.Errorf("after %.0f ms; a screen reader says %q; the focus is on %q", took, live, focused)
	}
}
