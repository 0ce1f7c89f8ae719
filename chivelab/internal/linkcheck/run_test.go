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

// measured runs a check until the emulator was not late.
func measured(t *testing.T, c Config) *Report {
	t.Helper()
	var r *Report
	for range 3 {
		var err error
		if r, err = Run(t.Context(), c); errors.Is(err, namespace.ErrDenied) {
			t.Skip("SKIPPED:", err)
		} else if err != nil {
			t.Fatal(err)
		}
		if r.Refused == "" {
			return r
		}
		t.Log("again:", r.Refused)
	}
	t.Skip("SKIPPED: this machine is too slow now:", r.Refused)
	return nil
}

const ms = time.Millisecond

// TestCalibrated: what is measured from outside is within 5 % of the rules, for both attachments.
func TestCalibrated(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds each")
	}
	for _, c := range []Config{
		{Name: "plain", Rules: links.Rules{Rate: 10_000_000, Delay: 50 * ms}},
		{Name: "lossy", Rules: links.Rules{Rate: 20_000_000, Delay: 20 * ms, Loss: .05}, Seed: 1},
		{Name: "bursts", Rules: links.Rules{Rate: 20_000_000, Delay: 20 * ms, Burst: links.Burst{ToBad: .02, ToGood: .2, LossBad: 1}}, Seed: 2},
		{Name: "jitter", Rules: links.Rules{Rate: 50_000_000, Delay: 40 * ms, Jitter: links.Normal, Spread: 5 * ms}},
		{Name: "codel", Rules: links.Rules{Rate: 5_000_000, Delay: 30 * ms, Discipline: links.CoDel}},
	} {
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
