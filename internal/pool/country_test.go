package pool

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestCountry: a circuit whose exit was chosen for a country is for streams that ask for that
// country, and for no others, also if no stream was on it yet. Another user's choice would show in the
// exits that a client takes.
func TestCountry(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	in := func(country, user string) Request {
		r := to(443, key(user))
		r.Key.Country = country
		return r
	}
	cfg := bare()
	cfg.PerPort = 1
	run(t, cfg, b, func(p *Pool) {
		for range 2 { // the second time, circuits were built ahead
			for i, country := range []string{"de", "", "fr"} {
				l := acquire(t, p, in(country, string(rune('a'+i))))
				if got := l.Circuit.(*fakeCircuit).spec.Country; got != country {
					t.Errorf("a circuit for %q where %q was asked for", got, country)
				}
				time.Sleep(time.Minute)
				if got := acquire(t, p, in(country, "other")).Circuit.(*fakeCircuit).spec.Country; got != country {
					t.Errorf("built ahead: a circuit for %q where %q was asked for", got, country)
				}
				time.Sleep(time.Minute)
			}
		}
		clean := map[string]int{}
		for _, e := range p.entries {
			if e.clean() && !e.retired {
				clean[e.country]++
			}
		}
		if clean["de"] != 1 || clean["fr"] != 1 || clean[""] != 1 {
			t.Errorf("built ahead: %v", clean)
		}
	})
}

// TestCountryOfLaunches: who asks for a country does not wait for a circuit to another one.
func TestCountryOfLaunches(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, bare(), b, func(p *Pool) {
		got := make(chan string)
		for _, country := range []string{"", "de", "fr"} {
			go func() {
				r := to(443, key("a"))
				r.Key.Country = country
				l, err := p.Acquire(context.Background(), r)
				if err != nil {
					t.Error(err)
					got <- "!"
					return
				}
				if l.Circuit.(*fakeCircuit).spec.Country != country {
					t.Errorf("another's circuit for %q", country)
				}
				got <- country
			}()
		}
		for range 3 {
			<-got
		}
		if b.launched() != 3 {
			t.Errorf("%d launches", b.launched())
		}
	})
}

// TestCountryAtOnce: who asks for a country does not first wait for a circuit that is built ahead.
func TestCountryAtOnce(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	cfg := bare()
	cfg.PerPort, cfg.MaxClean, cfg.InitialPorts = 1, 1, []uint16{443}
	run(t, cfg, b, func(p *Pool) {
		synctest.Wait()
		begun := time.Now()
		r := to(443, key("a"))
		r.Key.Country = "de"
		acquire(t, p, r)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
