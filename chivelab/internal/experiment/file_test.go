package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// small is a file with all keys.
const small = `title = "small"
seed = 7
repetitions = 3
downloads = 1
size = 1000
directories = 1
load = 1
handshakes = ["ntor-v3", "pq768-B"]
path = ["a", "b"]

[[link]]
name = "l"
rate = "100M"
delay = "1ms"

[[place]]
name = "here"
link = "l"

[[node]]
name = "me"
role = "client"
place = "here"

[[node]]
name = "a"
role = "relay"

[[node]]
name = "b"
role = "exit"
place = "here"
`

func TestParse(t *testing.T) {
	f, err := Parse("dir/small.toml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if f.Title != "small" || f.Seed != 7 || f.Repetitions != 3 || f.Downloads != 1 || f.Size != 1000 || f.Directories != 1 || f.Load != 1 || f.Short() != "small" {
		t.Errorf("%+v", f)
	}
	if want := []Handshake{{"ntor-v3", ""}, {"pq768", "B"}}; !slices.Equal(f.Handshakes, want) {
		t.Errorf("%v", f.Handshakes)
	}
	n, access, named := f.layout()
	if n != (nodes{1, 2, 1}) || named["a"] != "chiverelay0" || named["b"] != "chiveexit0" || named["me"] != measuring {
		t.Errorf("%+v, %v", n, named)
	}
	if d := access[measuring].Up.Rules.Delay; d != time.Millisecond || access["chiveexit0"].Down.Rules.Rate != 1e8 || access["chiverelay0"].Up.Rules.Delay != 0 {
		t.Errorf("%+v", access)
	}
}

// TestProgram: nodes are Chive's, unless the file says C tor's.
func TestProgram(t *testing.T) {
	for program, want := range map[string]string{"": ProgramChive, "program = \"chive\"\n": ProgramChive, "program = \"tor\"\n": ProgramTor} {
		f, err := Parse("f.toml", []byte(program+strings.Replace(small, `, "pq768-B"`, "", 1)))
		if err != nil || f.Program != want {
			t.Errorf("%q: %+v, %v", program, f, err)
		}
		if tor := want == ProgramTor; f.HasTor() != tor || f.Mixed() {
			t.Errorf("%q: C tor's: %v, mixed: %v", program, f.HasTor(), f.Mixed())
		}
	}
	mixed := strings.Replace(strings.Replace(small, `, "pq768-B"`, "", 1), `role = "relay"`, "role = \"relay\"\nprogram = \"tor\"", 1)
	f, err := Parse("f.toml", []byte(mixed))
	if err != nil || !f.HasTor() || !f.Mixed() || f.runs(f.node("a")) != ProgramTor || f.runs(f.node("b")) != ProgramChive {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestMistakes: each mistake is told with its file and line.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		from, to string
		line     int
		want     string
	}{
		{`seed = 7`, `sead = 7`, 2, `seed`},
		{`seed = 7`, `seed = -1`, 2, `no number`},
		{`title = "small"`, `title = 5`, 1, `no text`},
		{`repetitions = 3`, `repetitions = 0`, 3, `from 1`},
		{`size = 1000`, `size = "1k"`, 5, `no number`},
		{`load = 1`, `load = 65`, 7, `to 64`},
		{`"ntor-v3"`, `"ntor-v4"`, 8, `ntor-v3`},
		{`"ntor-v3"`, `"ntor-v3-B"`, 8, `no carriage`},
		{`"ntor-v3"`, `"pq512-C"`, 8, `neither`},
		{`"ntor-v3"`, `"pq768-B"`, 8, `twice`},
		{`["ntor-v3", "pq768-B"]`, `[]`, 8, `no list`},
		{`load = 1`, `program = "arti"`, 7, `program`},
		{`load = 1`, `program = 5`, 7, `program`},
		{`load = 1`, `program = "tor"`, 8, `C tor know no pq768-B`},
		{`role = "relay"`, "role = \"relay\"\nprogram = \"tor\"", 8, `one is in the path`},
		{`role = "relay"`, "role = \"relay\"\nprogram = \"arti\"", 28, `arti`},
		{`role = "client"`, "role = \"client\"\nprogram = \"tor\"", 23, `always this program`},
		{`role = "exit"`, "role = \"exit\"\nprogram = \"tor\"\n[[node]]\nname = \"d\"\nrole = \"authority\"", 35, `authorities must be`},
		{`["a", "b"]`, `["a", "c"]`, 9, `no node "c"`},
		{`["a", "b"]`, `["a", "a", "b"]`, 9, `twice`},
		{`["a", "b"]`, `["b", "a"]`, 9, `no exit`},
		{`["a", "b"]`, `["me", "b"]`, 9, `no relay`},
		{`["a", "b"]`, `["a", 5]`, 9, `no text`},
		{`["a", "b"]`, `[]`, 0, `no path`},
		{`delay = "1ms"`, `delay = "1"`, 14, `delay`},
		{`link = "l"`, `link = "m"`, 18, `no link "m"`},
		{`name = "here"`, `nam = "here"`, 17, `name`},
		{`role = "relay"`, `role = "relais"`, 27, `relay`},
		{"name = \"a\"\nrole = \"relay\"", `role = "relay"`, 26, `no name`},
		{`name = "a"`, `name = "me"`, 26, `two nodes`},
		{`name = "a"`, `name = 5`, 26, `no text`},
		{`role = "client"`, `role = "relay"`, 21, `role client`},
		{`place = "here"`, `place = "there"`, 23, `no place "there"`},
	} {
		doc := strings.Replace(small, c.from, c.to, 1)
		if doc == small {
			t.Fatalf("%q is not there", c.from)
		}
		_, err := Parse("f.toml", []byte(doc))
		at := "f.toml"
		if c.line > 0 {
			at = fmt.Sprintf("f.toml:%d: ", c.line)
		}
		if err == nil || !fault.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), at) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q instead of %q: %v", c.to, c.from, err)
		}
	}
	for _, key := range []string{"link", "place", "node"} {
		if _, err := Parse("f.toml", []byte("title=\"\"\n"+key+" = 5\n")); err == nil || !strings.HasPrefix(err.Error(), "f.toml:2: ") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestShipped: the shipped files have the links of the reports that they are about.
func TestShipped(t *testing.T) {
	// Mbit/s, one-way delay in ms, loss in percent.
	want := map[byte][12][3]float64{
		'h': {{123.89, 2.71, 5}, {59.73, 2.72, 5}, {102.76, 2.71, 2}, {95.02, 2.72, 5}, {102.76, 2.71, 5}, {91.33, 2.72, 2},
			{192.18, 2.71, 3}, {177.95, 2.71, 3}, {125.97, 2.71, 1}, {118.22, 2.72, 3}, {27.04, 2.71, 3}, {22.98, 2.72, 3}},
		'c': {{59.27, 2.71, 3}, {16.55, 2.72, 3}, {25.19, 2.71, 1}, {23.64, 2.72, 3}, {25.19, 2.72, 3}, {22.91, 2.72, 1},
			{69.43, 5.42, 2}, {44.84, 5.42, 2}, {29.84, 2.72, .5}, {28.29, 5.42, 2}, {9.67, 5.42, 2}, {8.73, 5.42, 2}},
		's': {{31.81, 5.42, 2}, {8.77, 5.44, 2}, {20.53, 2.73, .1}, {29.21, 5.42, 2}, {23.03, 5.43, 2}, {29.21, 5.42, .1},
			{14.08, 5.44, 2}, {8.77, 5.46, 2}, {8.77, 2.72, .5}, {8.77, 5.44, 2}, {3.60, 5.44, 2}, {8.77, 5.44, 2}},
	}
	seeds := map[uint64]string{}
	is := func(f *File, w [3]float64) {
		r := f.Links[0].Up.Rules
		got := [3]float64{float64(r.Rate) / 1e6, float64(r.Delay) / 1e6, 100 * r.Loss}
		for i := range got {
			if math.Abs(got[i]-w[i]) > 1e-9 {
				t.Errorf("%s: %v, not %v", f.Name, got, w)
			}
		}
		if other := seeds[f.Seed]; other != "" {
			t.Errorf("%s and %s have the same seed", f.Name, other)
		}
		seeds[f.Seed] = f.Name
	}
	for _, set := range Sets {
		files, err := Find(set)
		if set == "hops" {
			for i, f := range files {
				if len(f.Path) != i+1 {
					t.Errorf("%s has %d hops", f.Name, len(f.Path))
				}
				is(f, [3]float64{100, 5, 0})
			}
			if len(files) != 8 || err != nil {
				t.Errorf("%d lengths, %v", len(files), err)
			}
			continue
		}
		if err != nil || len(files) != 12 {
			t.Fatalf("%s: %d files, %v", set, len(files), err)
		}
		for i, f := range files {
			is(f, want[set[0]][i])
		}
	}
	for name, w := range map[string][3]float64{"leo": {100, 20, .1}, "geo": {50, 250, .5}} {
		files, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		is(files[0], w)
	}
	for _, name := range Shipped() {
		files, err := Find(name)
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %d files, %v", name, len(files), err)
		}
		f := files[0]
		if _, access, named := f.layout(); len(named) < len(f.Path)+1 || access[measuring].Up.Rules.Delay == 0 {
			t.Errorf("%s: nodes %v", name, named)
		}
	}
	if _, err := Find("h13"); err == nil || !strings.Contains(err.Error(), "no shipped experiment") {
		t.Error(err)
	}
	if _, err := Find("./none.toml"); err == nil {
		t.Error("a file that is not there")
	}
}

// TestTasks: all is measured as often as the file says, and the handshakes take turns.
func TestTasks(t *testing.T) {
	f, err := Parse("f.toml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	f.Repetitions, f.Downloads, f.Directories = 10, 3, 25
	count := map[string]int{}
	seen := map[Task]bool{}
	last := 0
	for _, task := range f.Tasks() {
		count[task.Kind+task.Handshake]++
		if seen[task] {
			t.Errorf("%v is there twice", task)
		}
		seen[task] = true
		if task.Kind == KindCircuit {
			if task.Repetition < last {
				t.Error("a handshake waits for all of another")
			}
			last = task.Repetition
		}
	}
	for key, n := range map[string]int{"circuitntor-v3": 10, "circuitpq768-B": 10, "downloadntor-v3": 3, "downloadpq768-B": 3, "directory": 25} {
		if count[key] != n {
			t.Errorf("%s: %d", key, count[key])
		}
	}
	if !slices.Equal(f.Tasks(), f.Tasks()) {
		t.Error("the order changes")
	}
}
