package experiment

import (
	"context"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// TestRoundTrip: a real circuit of three hops over links of a known delay has the round trip that the links have, and
// its first hop takes one round trip of one link.
func TestRoundTrip(t *testing.T) {
	labtest.NoLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const delay = 20 * time.Millisecond
	link := links.Access{Up: links.Direction{Rules: links.Rules{Delay: delay}}}
	nw, err := startNetwork(ctx, 1, nodes{1, 2, 1}, map[string]links.Access{measuring: link, "chiverelay0": link, "chiverelay1": link, "chiveexit0": link})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := nw.close(); err != nil {
			t.Error(err)
		}
	}()
	dir, err := nw.directory()
	if err != nil {
		t.Fatal(err)
	}
	path, err := nw.path([]string{"chiverelay0", "chiverelay1", "chiveexit0"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := benchcirc.NewBuilder(ctx, dir, path, "pq768", "A", nw.client.Dial)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	// A busy machine makes a trip longer, never shorter: the links are as the rules say if the shortest trips come close.
	best, first := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for best > 6*delay*11/10 || first > 2*delay*5/4 {
		circ, s, err := b.Open(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		begin, trip, err := Echo(ctx, circ, netip.MustParseAddrPort(nw.Echo))
		b.Over(circ)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		best, first = min(best, trip), min(first, time.Duration(s.Hops[0].Wall*1000))
		if best < 6*delay || begin < 6*delay || first < 2*delay {
			t.Fatalf("trips are shorter than the links: %v, %v to open a stream, %v for the first hop", best, begin, first)
		}
	}
	t.Logf("a round trip takes %v of %v, the first hop %v of %v; emulator: %v", best, 6*delay, first, 2*delay, nw.net.Lateness())
	if err := (links.Bound{}).Refuse(nw.net.Lateness()); ctx.Err() != nil && err != nil {
		t.Skipf("NOTHING WAS MEASURED: %v", err)
	} else if ctx.Err() != nil {
		t.Error("no trip came close to what the links take")
	}
}
