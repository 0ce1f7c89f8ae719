package labpage_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/page"
)

// TestWorse: a link that the page makes worse delays what comes, the page shows its rules, and what cannot be is refused.
func TestWorse(t *testing.T) {
	nw, at := showEmulated(t)
	w := watch(t, at)
	const delay = 120 * time.Millisecond
	for _, no := range []url.Values{
		{"node": {"nobody"}, "delay": {"1"}, "loss": {"0"}, "rate": {"0"}},
		{"node": {"client"}, "delay": {"-1"}, "loss": {"0"}, "rate": {"0"}},
		{"node": {"client"}, "delay": {"1"}, "loss": {"101"}, "rate": {"0"}},
		{"node": {"client"}, "delay": {"1"}, "loss": {"NaN"}, "rate": {"0"}},
		{"node": {"client"}, "delay": {"1"}, "loss": {"0"}, "rate": {"0.001"}},
		{"node": {"client"}, "loss": {"0"}, "rate": {"0"}},
	} {
		if status, text := post(t, at, "link", no); status != http.StatusConflict {
			t.Errorf("%v: %d %s", no, status, text)
		}
	}
	if status, text := post(t, at, "link", url.Values{"node": {"client"}, "delay": {"120"}, "loss": {"0.5"}, "rate": {"2000"}}); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f, err := nw.Fetch(ctx, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	// The connection and the request each go there and back; the link takes its delay both times.
	if f.First < 4*delay {
		t.Errorf("the first byte came after %v, over a link of %v one way", f.First, delay)
	}
	st, _ := w.until(func(s *page.State) bool {
		i := slices.IndexFunc(s.Nodes, func(n page.Node) bool { return n.Name == "client" })
		a := s.Nodes[i].Access
		return a != nil && a.DelayMS == 120 && a.Loss == .5 && a.Rate == 2000 && a.Packets > 20
	})
	if !st.Emulation.On {
		t.Errorf("%+v", st.Emulation)
	}
	for _, n := range st.Nodes {
		if n.Access == nil || n.Name != "client" && *n.Access != (page.Access{Packets: n.Access.Packets}) {
			t.Errorf("%s: %+v", n.Name, n.Access)
		}
	}
	if status, text := post(t, at, "trace", nil); status != http.StatusOK || !strings.Contains(text, "X-Trace") {
		t.Errorf("over emulated links no cell is followed: %d %s", status, text)
	}
}
