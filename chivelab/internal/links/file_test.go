package links

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TestFile: every key sets its rule; a later table changes only what it says.
func TestFile(t *testing.T) {
	f, err := ParseFile("f", []byte(`
seed = 7
[[link]]
name = "sat"
rate = "10 Mbit/s"
delay = "50ms"
jitter = "table"
table = ["-5ms", "0s", "20ms"]
loss = 0.01
burst-to-bad = 0.02
burst-to-good = 0.3
burst-loss-good = 0.001
burst-loss-bad = 1
reorder = 0.1
reorder-by = "3ms"
queue = 65536
discipline = "codel"
target = "6ms"
interval = "120ms"
mtu = 1400

[[link]]
name = "sat"
direction = "up"
rate = "500k"
[[link]]
name = "sat"
at = "10s"
jitter = "normal"
spread = "2ms"
[[link]]
name = "sat"
direction = "down"
at = "20s"
loss = 1
jitter = "none"
[[link]]
name = "dsl"
rate = 16000000
`))
	if err != nil {
		t.Fatal(err)
	}
	down := Rules{Rate: 10_000_000, Delay: 50 * ms, Jitter: Table, Table: []time.Duration{-5 * ms, 0, 20 * ms}, Loss: .01, Burst: Burst{.02, .3, .001, 1},
		Reorder: .1, ReorderBy: 3 * ms, Queue: 65536, Discipline: CoDel, Target: 6 * ms, Interval: 120 * ms, MTU: 1400}
	up := down
	up.Rate = 500_000
	later := func(r Rules) Rules { r.Jitter, r.Table, r.Spread = Normal, nil, 2*ms; return r }
	gone := later(down)
	gone.Loss, gone.Jitter, gone.Spread = 1, Steady, 0
	want := &File{7, []Named{
		{"sat", Direction{up, []Step{{10 * time.Second, later(up)}}}, Direction{down, []Step{{10 * time.Second, later(down)}, {20 * time.Second, gone}}}},
		{"dsl", Direction{Rules: Rules{Rate: 16_000_000}}, Direction{Rules: Rules{Rate: 16_000_000}}},
	}}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("%+v, want %+v", f, want)
	}
	set := map[string]bool{}
	for _, field := range fields {
		set[field.key] = true
	}
	if n := reflect.TypeFor[Rules]().NumField() + reflect.TypeFor[Burst]().NumField() - 1; len(set) != n {
		t.Errorf("%d keys for %d rules", len(set), n)
	}
	if a := (Access{f.Links[0].Up, Direction{}}); a.MTU() != 1400 {
		t.Error(a.MTU())
	}
}

// TestFileMistakes: the error has the file, the line and the reason.
func TestFileMistakes(t *testing.T) {
	head := "[[link]]\nname = 'a'\n"
	for doc, want := range map[string]string{
		"":                          "f: it has no [[link]]",
		"sed = 1\n" + head:          "f:1: ",
		"\nseed = -1\n" + head:      "f:2: seed: -1",
		"link = 3\n":                "f:1: links are written as [[link]]",
		"link = [1]\n":              "f:1: links are written as [[link]]",
		"[[link]]\nrate = '1M'\n":   "f:1: link 1: each link has a name",
		head + "rat = 1\n":          `f:3: link 1: unknown key "rat"`,
		head + "\nloss = 1.5\n":     "f:4: link 1: loss: 1.5 is no chance",
		head + "loss = '1'\n":       "f:3: link 1: loss: 1 is no chance",
		head + "delay = 5\n":        "f:3: link 1: delay: 5 is no time",
		head + "delay = '5'\n":      `f:3: link 1: delay: "5" is no time`,
		head + "rate = '5 apples'":  "f:3: link 1: rate: 5 apples is no rate",
		head + "rate = '5T'":        "f:3: link 1: rate: 5T is no rate",
		head + "rate = 5.0":         "f:3: link 1: rate: 5 is no rate",
		head + "rate = 5":           "f:3: link 1: rate: 5 bits a second",
		head + "rate = '-5M'":       "f:3: link 1: rate: -5M is no rate",
		head + "queue = 0":          "f:3: link 1: queue: 0",
		head + "queue = '1M'":       "f:3: link 1: queue: 1M",
		head + "mtu = 20":           "f:3: link 1: mtu: 20",
		head + "jitter = 1":         "f:3: link 1: jitter: 1 is no text",
		head + "jitter = 'odd'":     `f:3: link 1: jitter: "odd" is no shape`,
		head + "table = 1":          "f:3: link 1: table: 1 is no list",
		head + "table = [1]":        "f:3: link 1: table: 1 is no time",
		head + "discipline = 'red'": `f:3: link 1: discipline: "red"`,
		head + "direction = 'left'": "f:3: link 1: direction: left",
		head + "at = '1s'":          "f:3: link 1: at: the first table",
		head + "at = 1":             "1 is no time",
		head + head + "at = '2s'\n" + head + "\nat = '2s'\n": "f:9: link 3: at: 2s is not after",
		head + head + "at = '2s'\n" + head:                   "link 3: at: 0s is not after",
		head + "reorder = 0.1":                               "f:2: link 1: reorder-by: ",
		"x":                                                  "f:1: ",
	} {
		_, err := ParseFile("f", []byte(doc))
		if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", doc, err, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("seed = 1\n[[link]]\nname = 'a'\nrate = '1M'\n[[link]]\nname='a'\nat='1s'\nloss=0.5\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		file, err := ParseFile("f", doc)
		if err != nil {
			return
		}
		for _, l := range file.Links {
			for _, d := range []Direction{l.Up, l.Down} {
				if _, err := NewPipe(d.Rules, d.Steps, file.Seed); err != nil {
					t.Errorf("a file has rules that no pipe takes: %v", err)
				}
			}
		}
	})
}
