package flood

import (
	"strings"
	"testing"
	"time"
)

func TestGoals(t *testing.T) {
	row := func(victim string, p95, mbps, rss float64, died ...string) Row {
		return Row{Flood: "churn", Sources: 1, Victim: victim, Died: died, RSSPeak: rss,
			Before: Phase{Ping: Times{P95: 2}, Goodput: 3}, During: Phase{Ping: Times{P95: p95}, Goodput: mbps}, After: Phase{Ping: Times{P95: 4}}}
	}
	r := &Report{Rows: []Row{row("Chive", 10, 1, 400, "x"), row("C tor", 11, 0.9, 100)}}
	r.Goals = goals(r.Rows, 300e6)
	want := map[string]bool{
		"processes that ended": false, "RSS peak, MB": false, "p95 in the flood, times idle": true,
		"goodput in the flood, times idle": true, "p95 after it, times idle": true,
	}
	if len(r.Goals) != len(want) {
		t.Errorf("%d goals, want %d", len(r.Goals), len(want))
	}
	for _, g := range r.Goals {
		_, what, _ := strings.Cut(g.What, ": ")
		if met, known := want[what]; !known || g.Met != met {
			t.Errorf("%+v, want met %v", g, met)
		}
	}
	if g := r.Goals[2]; g.Tor != 5.5 || g.Chive != 5 {
		t.Errorf("%+v", g)
	}
	var b strings.Builder
	if err := r.WriteGoals(&b); err != nil || !strings.HasPrefix(b.String(), "3 of 5 goals met\n") || strings.Count(b.String(), "NOT MET") != 2 {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := r.WriteTable(&b); err != nil || !strings.Contains(b.String(), "DIED") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestSamples(t *testing.T) {
	var s samples
	t0 := time.Unix(1000, 0)
	for i := range 100 {
		s.add(sample{began: t0.Add(time.Duration(i) * time.Second), took: time.Duration(i+1) * time.Millisecond, ok: i != 7})
	}
	all := timesOf(s.between(t0, t0.Add(time.Hour)))
	if all.Count != 100 || all.Failed != 1 || all.Median != 51 || all.P95 != 96 || all.Max != 100 {
		t.Errorf("%+v", all)
	}
	if some := timesOf(s.between(t0.Add(90*time.Second), t0.Add(time.Hour))); some.Count != 10 {
		t.Errorf("%+v", some)
	}
	s.begin(t0.Add(200 * time.Second)) // and never ends
	if all := s.between(t0.Add(150*time.Second), t0.Add(205*time.Second)); len(all) != 1 || all[0].took != 5*time.Second {
		t.Errorf("%+v", all)
	}
	if none := timesOf(nil); none != (Times{}) {
		t.Errorf("%+v", none)
	}
}

func TestPlan(t *testing.T) {
	for name, p := range map[string]Plan{"flood": {Floods: []string{"rain"}}, "victim": {Victims: []string{"you"}}, "sources": {Sources: []int{0}}} {
		if _, err := p.check(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	p := Plan{}
	if all, err := p.check(); err != nil || len(all) != len(floods) || p.Memory != 256<<20 || len(p.Sources) != 2 {
		t.Errorf("%d floods, %+v, %v", len(all), p, err)
	}
}

// TestLimiter lets go at once what its slack allows, and then asks to wait.
func TestLimiter(t *testing.T) {
	l := &limiter{per: time.Hour}
	if !l.take(t.Context(), 1) {
		t.Error("the first has to wait")
	}
	l.mu.Lock()
	wait := time.Until(l.at)
	l.mu.Unlock()
	if wait < 59*time.Minute {
		t.Errorf("the next is due in %v", wait)
	}
}
