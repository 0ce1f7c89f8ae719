package wan

import (
	"reflect"
	"testing"
	"time"
)

// TestLayout: a seed decides all, and what it decides is what the plan says.
func TestLayout(t *testing.T) {
	p := Full()
	for seed := 1; seed <= 20; seed++ {
		l := p.Layout(seed)
		if !reflect.DeepEqual(l, p.Layout(seed)) {
			t.Fatal("one seed gives two networks")
		}
		if seed > 1 && reflect.DeepEqual(l.Clients, p.Layout(seed-1).Clients) {
			t.Errorf("seeds %d and %d are the same", seed-1, seed)
		}
		if l.Relays[0].Rate != slowest || l.Relays[19].Rate != fastest {
			t.Errorf("relays of %d to %d", l.Relays[0].Rate, l.Relays[19].Rate)
		}
		places := map[int]bool{}
		exits := 0
		for _, r := range l.Relays {
			if places[r.Region] = true; r.Exit {
				exits++
			}
		}
		if len(places) != regions || exits != 6 {
			t.Errorf("%d regions, %d exits", len(places), exits)
		}
		sizes := map[int64]int{}
		for _, c := range l.Clients {
			if g, m, e := c.Path[0], c.Path[1], c.Path[2]; g == m || l.Relays[g].Exit || l.Relays[m].Exit || !l.Relays[e].Exit {
				t.Errorf("path %v", c.Path)
			}
			last := time.Duration(0)
			for _, r := range c.Requests {
				if sizes[r.Size]++; r.At < last || r.At >= p.Window {
					t.Errorf("a request at %v", r.At)
				}
				last = r.At
			}
		}
		if sizes[50<<10] != 84 || sizes[1<<20] != 30 || sizes[5<<20] != 6 {
			t.Errorf("sizes %v", sizes)
		}
	}
	if near, far := 2*distance(0), 2*distance(regions-1); near != 10*time.Millisecond || far != 80*time.Millisecond {
		t.Errorf("%v to %v apart", near, far)
	}
}

// TestTasks: each side has each seed and loss once, in an order in which networks and clients are started once for each
// seed and program.
func TestTasks(t *testing.T) {
	p := Full()
	seen := map[Task]bool{}
	networks := map[[2]any]bool{}
	var last Task
	for _, task := range p.Tasks() {
		if seen[task] {
			t.Errorf("%v twice", task)
		}
		seen[task] = true
		if net := [2]any{task.Seed, task.Side.Relays}; task.Seed != last.Seed || task.Side.Relays != last.Side.Relays {
			if networks[net] {
				t.Errorf("the network of %v is started twice", net)
			}
			networks[net] = true
		}
		last = task
	}
	if len(seen) != 40 || len(networks) != 10 {
		t.Errorf("%d runs on %d networks", len(seen), len(networks))
	}
}

// TestPlanTime: the whole takes at most 30 minutes, the sample three, by what starting takes on two cores.
func TestPlanTime(t *testing.T) {
	full, short := Full(), Short()
	if d := full.Estimate(); d > 30*time.Minute {
		t.Errorf("the whole takes %v", d)
	}
	if d := short.Estimate(); d > 3*time.Minute {
		t.Errorf("the sample takes %v", d)
	}
}

// TestCheck refuses plans that cannot be.
func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*Plan){
		"two relays":   func(p *Plan) { p.Relays = 2 },
		"many relays":  func(p *Plan) { p.Relays = 101 },
		"no clients":   func(p *Plan) { p.Clients = 0 },
		"many clients": func(p *Plan) { p.Clients = 101 },
		"no seeds":     func(p *Plan) { p.Seeds = 0 },
		"no scale":     func(p *Plan) { p.Scale = 0 },
		"no losses":    func(p *Plan) { p.Losses = nil },
		"much loss":    func(p *Plan) { p.Losses = []float64{.2} },
		"a loss twice": func(p *Plan) { p.Losses = []float64{0, 0} },
	} {
		p := Full()
		if change(&p); p.Check() == nil {
			t.Error(name)
		}
	}
	p := Full()
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if p.Scale = .5; p.Window != 20*time.Second {
		t.Fatal(p.Window)
	}
	if p.Stretch(); p.Window != 40*time.Second || p.Patience != 30*time.Second {
		t.Errorf("relays at half the rate: %v, %v", p.Window, p.Patience)
	}
}
