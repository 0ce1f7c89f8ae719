package channel

import (
	"io"
	"testing"

	"github.com/chivenet/chive/internal/nonblock"
)

// TestPoller: a poller asks only during a bulk transfer. After each poll without success it
// skips twice as many chances, up to a bound, and skips none once something came.
func TestPoller(t *testing.T) {
	var p poller
	asked := 0
	never := func() bool { asked++; return false }
	chance := func(try func() bool) bool {
		asked = 0
		p.got(bulkBytes - 1)
		p.got(1)
		return p.poll(try)
	}
	p.got(bulkBytes - 1)
	if p.poll(never) || asked != 0 {
		t.Errorf("asked %d times for little", asked)
	}
	if chance(never) || asked != pollTries {
		t.Errorf("asked %d times, want %d", asked, pollTries)
	}
	for want := 0; want < 3*maxSkips; want = 2*want + 1 {
		skipped := 0
		for chance(never); asked == 0; chance(never) {
			skipped++
		}
		if skipped != min(want, maxSkips) {
			t.Errorf("%d chances left out, want %d", skipped, min(want, maxSkips))
		}
	}
	last := func() bool { asked++; return asked == pollTries }
	for !chance(last) {
		if asked != 0 {
			t.Fatalf("nothing after asking %d times", asked)
		}
	}
	if !chance(last) || asked != pollTries {
		t.Error("not asked again after something came")
	}
	if p.poll(never) {
		t.Error("nothing came since")
	}
	if n := testing.AllocsPerRun(10, func() { chance(never) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestPollDelaysNothing: circuits pass on what they got before the wire polls for more, and
// after a lone cell it does not poll at all.
func TestPollDelaysNothing(t *testing.T) {
	if !nonblock.Available {
		t.Skip("no wire here")
	}
	for _, c := range []struct {
		name  string
		bytes int
		polls bool
	}{{"a lone cell", 536, false}, {"bulk", 4096, true}} {
		t.Run(c.name, func(t *testing.T) {
			a, b := tcpPair(t)
			defer a.Close()
			defer b.Close()
			w := newWire(a)
			w.poller = new(poller)
			got, passed := false, false // the bytes, and on to the circuits
			w.setDirect(func() {
				passed = true
				if got {
					_, _ = b.Write([]byte{1}) // an error makes the last read fail
				}
			}, nil)
			ask, asked := w.ask, 0
			w.ask = func() bool {
				if asked++; !passed {
					t.Error("polled before the bytes were passed on")
				}
				return ask()
			}
			if _, err := b.Write(make([]byte, c.bytes)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(w, make([]byte, c.bytes)); err != nil {
				t.Fatal(err)
			}
			got, passed = true, false
			if _, err := w.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if (asked > 0) != c.polls {
				t.Errorf("polled %d times", asked)
			}
		})
	}
}
