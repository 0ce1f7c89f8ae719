package labpage_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/lab"
)

// TestTrace: the cell with the request is at each relay of the circuit another one, until the exit reads the request; what
// one let go is what came to the next; and no relay is looked at afterwards.
func TestTrace(t *testing.T) {
	nw, at := show(t)
	for range 3 {
		status, text := post(t, at, "trace", nil)
		var got page.Traced
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK {
			t.Fatal(status, text, err)
		}
		if len(got.Passed) != 3 || got.Command != "DATA" || got.Stream == 0 || !strings.HasPrefix(got.Text, "GET /") || !strings.Contains(got.Text, "\r\nX-Trace: ") {
			t.Fatalf("%+v", got)
		}
		for i, p := range got.Passed {
			if p.Layer == "" || len(p.Came) != 2*509 || p.Came == p.Left || strings.Contains(p.Came, "582d5472616365") { // X-Trace
				t.Errorf("%d: %+v", i, p)
			}
			if i > 0 && p.Came != got.Passed[i-1].Left {
				t.Errorf("what %s let go is not what came to %s", got.Passed[i-1].Node, p.Node)
			}
			if n := nw.Node(p.Node); n == nil || n.Relay() == nil || i == 2 && n.Role != lab.Exit {
				t.Errorf("%d: %s", i, p.Node)
			}
		}
		if last := got.Passed[2].Left; !strings.Contains(last, "582d5472616365") {
			t.Errorf("the exit has left %s", last)
		}
	}
	if status, text := post(t, at, "link", url.Values{"node": {"chiverelay0"}, "delay": {"1"}, "loss": {"0"}, "rate": {"0"}}); status != http.StatusNotFound {
		t.Errorf("a link of the kernel's network was changed: %d %s", status, text)
	}
}
