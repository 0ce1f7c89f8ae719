//go:build linux

package linkcheck

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/namespace"
)

const probeEnv = "LINKCHECK_PROBE"

func TestMain(m *testing.M) {
	namespace.Inside()
	if len(os.Args) > 1 && os.Args[1] == probeEnv {
		if err := Probe(os.Args[2:], os.Stdout); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// probe is this test as the program beside a TUN device.
func probe(t *testing.T) []string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{exe, probeEnv}
}

// measured runs a check until the emulator was not late, and what was found is within 5 %: the emulator does
// not see how long a busy machine keeps a packet before and after it. A link that is wrong is so each time.
func measured(t *testing.T, c Config) *Report {
	t.Helper()
	var r, counts *Report
	for range 3 {
		var err error
		if r, err = Run(t.Context(), c); errors.Is(err, namespace.ErrDenied) {
			t.Skip("SKIPPED:", err)
		} else if err != nil {
			t.Fatal(err)
		}
		if r.Refused == "" {
			if counts = r; r.Worst() <= .05 {
				return r
			}
		}
		t.Logf("again: %s\n%s", r.Refused, r.Table())
	}
	if counts != nil {
		return counts
	}
	t.Skip("SKIPPED: this machine is too slow now:", r.Refused)
	return nil
}

const ms = time.Millisecond

var calibrated = []Config{
	{Name: "plain", Rules: links.Rules{Rate: 10_000_000, Delay: 50 * ms}},
	{Name: "lossy", Rules: links.Rules{Rate: 20_000_000, Delay: 60 * ms, Loss: .05}, Seed: 2},
	{Name: "bursts", Rules: links.Rules{Rate: 20_000_000, Delay: 60 * ms, Burst: links.Burst{ToBad: .02, ToGood: .2, LossBad: 1}}, Seed: 2},
	{Name: "jitter", Rules: links.Rules{Rate: 50_000_000, Delay: 60 * ms, Jitter: links.Normal, Spread: 5 * ms}},
	{Name: "codel", Rules: links.Rules{Rate: 5_000_000, Delay: 60 * ms, Discipline: links.CoDel}},
}

// TestSeeds: with their seeds the links lose about as much as their rules say, so that a measurement that
// counts every packet finds that too. The seeds of the lines are those of package links: in the order of Attach.
func TestSeeds(t *testing.T) {
	for _, c := range calibrated {
		for _, line := range []uint64{3, 5} { // the sender's up: attached first, and second
			p, err := links.NewPipe(c.Rules, nil, c.Seed<<16+line)
			if err != nil {
				t.Fatal(err)
			}
			at, id := time.Duration(0), uint64(0)
			for _, v := range plan(c.Rules, 2) {
				lost := 0
				for range v.Count {
					at += time.Second
					id++
					for _, o := range p.Arrive(at, id, v.Size) {
						if o.Fate == links.Lost {
							lost++
						}
					}
				}
				if got := (Value{Want: c.Rules.MeanLoss(), Got: float64(lost) / float64(v.Count)}); v.Phase == losses && got.Off() > .045 {
					t.Errorf("%s, line %d: %.4f are lost, want %.4f", c.Name, line, got.Got, got.Want)
				}
			}
		}
	}
}

// TestCalibrated: what is measured from outside is within 5 % of the rules, for both attachments.
func TestCalibrated(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds each")
	}
	for _, c := range calibrated {
		for _, at := range []string{"stack", "tun"} {
			t.Run(c.Name+"/"+at, func(t *testing.T) {
				if at == "tun" {
					c.Probe = probe(t)
				}
				r := measured(t, c)
				t.Logf("\n%s%v", r.Table(), r.Late)
				if want := len(plan(c.Rules, 2)); len(r.Values) != want {
					t.Errorf("%d values, want %d", len(r.Values), want)
				}
				for _, v := range r.Values {
					if v.Off() > .05 {
						t.Errorf("%s: %.3f %s, want %.3f", v.Name, v.Got, v.Unit, v.Want)
					}
				}
			})
		}
	}
}

// TestGoodput: TCP makes the same of a link whichever way its hosts are attached, within 10 %, and carries no more than the
// rate without the headers. Where much is lost, they differ more: within 25 %.
func TestGoodput(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds each")
	}
	for name, v := range map[string]struct{ loss, by float64 }{"nothing is lost": {0, .1}, "some packets are lost": {.001, .1}, "many packets are lost": {.02, .25}} {
		t.Run(name, func(t *testing.T) {
			c := Config{Rules: links.Rules{Rate: 10_000_000, Delay: 20 * ms, Loss: v.loss}}
			const most = 10 * 1460. / 1500 * 1.01 // the first byte comes with the first packet, which is not counted
			// A busy machine makes either slower, and the emulator does not see how long it keeps what it writes and reads. So
			// each counts by its best: a stack that does less by itself does so each time.
			var stack, tun float64
			for range 3 {
				c.Probe = nil
				stack = max(stack, goodput(t, c))
				c.Probe = probe(t)
				tun = max(tun, goodput(t, c))
				if stack > most || tun > most {
					t.Fatalf("%.3f and %.3f Mbit/s are more than %.3f", stack, tun, most)
				}
				if within(tun/stack, v.by) {
					return
				}
			}
			t.Errorf("TUN has %.3f Mbit/s, and the other %.3f", tun, stack)
		})
	}
}

// within reports whether a ratio is so near to 1, either way.
func within(ratio, by float64) bool { return ratio > 1-by && 1/ratio > 1-by }

// goodput is that of two transfers with other luck each.
func goodput(t *testing.T, c Config) float64 {
	t.Helper()
	took := 0.
	for c.Seed = range uint64(2) {
		took += 1 / transfer(t, c)
	}
	return 2 / took
}

// transfer measures until the emulator was not late.
func transfer(t *testing.T, c Config) float64 {
	t.Helper()
	refused := ""
	for range 2 {
		g, err := RunTCP(t.Context(), c, 1_500_000)
		switch {
		case errors.Is(err, namespace.ErrDenied):
			t.Skip("SKIPPED:", err)
		case err != nil:
			t.Fatal(err)
		case g.Refused == "":
			t.Logf("%.3f Mbit/s, %v", g.Mbits(), g.Late)
			return g.Mbits()
		}
		refused = g.Refused
	}
	t.Skip("SKIPPED: this machine is too slow now:", refused)
	return 0
}
