package wan

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/lab/ctor"
)

// program is one that the simulator could run. Nothing runs it here.
const program = "/bin/sh"

// simulation writes a plan for the simulator.
func simulation(t *testing.T, p Plan) *Simulation {
	t.Helper()
	s := &Simulation{Plan: p, Dir: filepath.Join(t.TempDir(), "out"), Lab: program, Chive: program, Tor: program, Version: "1", TorVersion: "2"}
	if err := s.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// texts are all files of runs but keys, with names instead of what keys make of them.
func texts(t *testing.T, s *Simulation) map[string]string {
	t.Helper()
	network, err := os.ReadFile(filepath.Join(s.Dir, simKeys, "network.toml"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	err = filepath.WalkDir(s.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "/"+simKeys+"/") || filepath.Base(name) == stateName {
			return err
		}
		b, err := os.ReadFile(name)
		text := strings.ReplaceAll(string(b), string(network), "the network")
		for _, field := range strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789ABCDEF", r) }) {
			if len(field) == 40 {
				text = strings.ReplaceAll(text, field, "FINGERPRINT")
			}
		}
		out[strings.TrimPrefix(name, s.Dir)] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWrite: the same plan gives the same files, but for keys. Each side has the same hosts, links and requests, and each
// node the settings that it has in namespaces.
func TestWrite(t *testing.T) {
	p := Short()
	p.Relays, p.Clients, p.Seeds = 4, 3, 2
	s := simulation(t, p)
	first, second := texts(t, s), texts(t, simulation(t, p))
	if len(first) != len(second) || len(first) < 16*(3+p.Clients) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for name, text := range first {
		if second[name] != text {
			t.Errorf("%s differs:\n%s\n%s", name, text, second[name])
		}
	}
	type config struct {
		General shadowfile.General
		Network struct{ Graph shadowfile.Graph }
		Hosts   map[string]shadowfile.Host
	}
	read := func(task Task) (c config) {
		if err := yaml.Unmarshal([]byte(first["/"+task.name()+"/"+simConfig]), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, task := range p.Tasks() {
		base, c := read(Task{task.Seed, Baseline, task.Loss}), read(task)
		if c.Network != base.Network || c.General != base.General || len(c.Hosts) != 2+p.Relays+p.Clients {
			t.Errorf("%v has another network than all C tor", task)
		}
		for name, h := range c.Hosts {
			b := base.Hosts[name]
			if h.Addr != b.Addr || h.Node != b.Node || h.Up != b.Up || h.Down != b.Down || len(h.Processes) != len(b.Processes) {
				t.Errorf("%v: %s is %+v, not %+v", task, name, h, b)
			}
		}
		work := "/" + task.name() + "/template/hosts/client1/work.json"
		var w appointed
		if err := json.Unmarshal([]byte(first[work]), &w); err != nil || len(w.Requests) != p.Requests || !w.At.Equal(shadowfile.Begin.Add(simRequestsAt)) {
			t.Errorf("%s: %v, %+v", work, err, w)
		}
		relay, client := c.Hosts["relay0"].Processes[0], c.Hosts["client0"].Processes[0]
		if (relay.Args[0] == "relay") != (task.Side.Relays == Chive) || (client.Args[0] == "proxy") != (task.Side.Clients == Chive) {
			t.Errorf("%v runs %v and %v", task, relay.Args, client.Args)
		}
		if lossy := strings.Count(c.Network.Graph.Inline, "packet_loss 0.002000000"); (lossy > 0) != (task.Loss > 0) {
			t.Errorf("%v: %d edges lose packets", task, lossy)
		}
	}
	if a, b := read(Task{1, Baseline, 0}), read(Task{2, Baseline, 0}); a.Network == b.Network && a.Hosts["relay1"].Node == b.Hosts["relay1"].Node {
		t.Error("two seeds have one network")
	}
	n := nodes{layout: p.Layout(1), authorityLine: "AUTHORITY", fingerprints: map[string]string{}, more: []string{"MORE"}}
	want := strings.Join(n.torRelay(simState, 0, n.layout.Relays[0]), "\n")
	got := first["/"+Task{1, Baseline, 0}.name()+"/template/hosts/relay0/torrc"]
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "MORE" && !strings.HasSuffix(line, "AUTHORITY") && !strings.Contains(got, line+"\n") {
			t.Errorf("relay0 lacks %q:\n%s", line, got)
		}
	}
}

// TestWriteRefuses: what cannot be written is an error, and leaves nothing.
func TestWriteRefuses(t *testing.T) {
	there := t.TempDir()
	for want, change := range map[string]func(*Simulation){
		"2 relays":                      func(s *Simulation) { s.Plan.Relays = 2 },
		"--chive: ":                     func(s *Simulation) { s.Chive = "plan.go" },
		"--tor: /nowhere":               func(s *Simulation) { s.Tor = "/nowhere" },
		"choose a new directory":        func(s *Simulation) { s.Dir = there },
		"no such file or directory: ch": func(s *Simulation) { s.Dir = filepath.Join(there, "deep", "deeper") },
	} {
		s := &Simulation{Plan: Short(), Dir: filepath.Join(t.TempDir(), "out"), Lab: program, Chive: program, Tor: program}
		change(s)
		if err := s.Write(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %q", err, want)
		}
		if _, err := os.Lstat(s.Dir); err == nil && s.Dir != there {
			t.Errorf("%q left %s", want, s.Dir)
		}
	}
}

// TestSimulate runs the simulator: all pages come on the sides of one program, with 1 % loss.
func TestSimulate(t *testing.T) {
	shadow, err := exec.LookPath("shadow")
	if err != nil {
		t.Skip("SKIPPED: Shadow is not installed:", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := shadowfile.CanRun(self); err != nil {
		t.Skip("SKIPPED: a test without cgo:", err)
	}
	tor, _, err := ctor.Find("")
	if err != nil {
		t.Skip("SKIPPED: no C tor:", err)
	}
	p := small()
	p.Losses, p.Clients = []float64{.01}, 2
	s := &Simulation{Plan: p, Dir: filepath.Join(t.TempDir(), "out"), Lab: self, Chive: self, Tor: tor}
	if err := s.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, side := range []Side{Baseline, {Chive, Chive}} {
		cmd := exec.CommandContext(t.Context(), shadow, simConfig)
		cmd.Dir = filepath.Join(s.Dir, Task{1, side, .01}.name())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out[max(0, len(out)-2000):])
		}
	}
	r, err := ReadSimulation(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 2 || len(r.Missing) != 2 || r.Err() == nil {
		t.Errorf("%d runs, missing %v, %v", len(r.Runs), r.Missing, r.Err())
	}
	for _, x := range r.Runs {
		if x.Requests != 4 || x.Failed != 0 {
			t.Errorf("%+v", x)
		}
	}
}
