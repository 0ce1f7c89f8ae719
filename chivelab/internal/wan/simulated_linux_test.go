package wan

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// answered writes what a simulation of a run leaves: client c has request r after 10+c and 100+10r+c milliseconds.
func answered(t *testing.T, s *Simulation, task Task) (hosts string) {
	t.Helper()
	hosts = filepath.Join(s.Dir, task.name(), simData, simHosts)
	for c, client := range s.Plan.Layout(task.Seed).Clients {
		var b bytes.Buffer
		for r := range client.Requests {
			if err := json.NewEncoder(&b).Encode(answer{Request: r, First: float64(10 + c), Total: float64(100 + 10*r + c)}); err != nil {
				t.Fatal(err)
			}
		}
		writeFile(t, filepath.Join(hosts, client.Name, simAnswers), b.String()+sayOver+"\n")
	}
	return hosts
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReadSimulation: the report has what clients have written, a second call makes the same, and what was not simulated is
// missing.
func TestReadSimulation(t *testing.T) {
	p := Short()
	p.Relays, p.Clients = 4, 3
	s := simulation(t, p)
	if _, err := ReadSimulation(s.Dir); err == nil || !strings.Contains(err.Error(), "run shadow in its directories first") {
		t.Errorf("nothing was simulated: %v", err)
	}
	tasks := p.Tasks()
	for _, task := range tasks[1:] {
		answered(t, s, task)
	}
	r, err := ReadSimulation(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadSimulation(s.Dir)
	if err != nil || !reflect.DeepEqual(r.Results, again.Results) || !reflect.DeepEqual(r.Runs, again.Runs) {
		t.Errorf("a second call: %v", err)
	}
	if len(r.Runs) != len(tasks)-1 || len(r.Missing) != 1 || r.Err() == nil || !strings.Contains(r.Table(), "the others were not simulated") {
		t.Errorf("%d runs, missing %v, %v", len(r.Runs), r.Missing, r.Err())
	}
	for _, x := range r.Runs {
		if x.Late || x.Requests != p.Clients*p.Requests || x.Failed != 0 {
			t.Errorf("%+v", x)
		}
	}
	found, err := Load(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range found.samples {
		if x.First != float64(10+x.Client) || x.Total != float64(100+10*x.Request+x.Client) {
			t.Errorf("%+v", x)
		}
	}
	run := &Run{Dir: s.Dir, Plan: p}
	if err := run.begin(t.Context()); err == nil || !strings.Contains(err.Error(), "is for the simulator") {
		t.Errorf("a run in its directory: %v", err)
	}
}

// TestReadSimulationRefuses: a simulation that was cut off, and files that no client has written, are errors that name the file.
func TestReadSimulationRefuses(t *testing.T) {
	p := Short()
	p.Relays, p.Clients = 3, 1
	s := simulation(t, p)
	hosts := answered(t, s, p.Tasks()[0])
	name := filepath.Join(hosts, "client0", simAnswers)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	line, rest, _ := strings.Cut(string(whole), "\n")
	for text, want := range map[string]string{
		string(whole[:len(whole)-3]): "cut off",
		"":                           "cut off",
		rest:                         "1 of 2 requests have answers",
		line + "\n" + string(whole):  "line 2 answers request 0 again",
		strings.Replace(string(whole), `"first":10`, `"first":-1`, 1):           "line 1: ",
		strings.Replace(string(whole), `"first":10`, `"first":1000`, 1):         "line 1: ",
		strings.Replace(string(whole), `"request":1`, `"request":2`, 1):         "line 2: ",
		strings.Replace(string(whole), `"request":1`, `"request":1e999`, 1):     "line 2: ",
		strings.Replace(string(whole), `{"request":0`, `x{"request":0`, 1):      "line 1: ",
		strings.Replace(string(whole), sayOver, sayOver+"\n"+sayOver, 1) + "\n": "cut off",
	} {
		writeFile(t, name, text)
		if _, err := ReadSimulation(s.Dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "client0/answers") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(hosts, "client0", "chivelab.1001.stderr"), "no page came\n")
	if _, err := ReadSimulation(s.Dir); err == nil || !strings.Contains(err.Error(), "not ended well") || !strings.Contains(err.Error(), "no page came") {
		t.Errorf("without answers: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, SamplesName)); err == nil {
		t.Error("samples were written")
	}
	if _, err := ReadSimulation(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no comparison is there") {
		t.Errorf("an empty directory: %v", err)
	}
	writeFile(t, filepath.Join(s.Dir, stateName), `{"plan":{"relays":3,"clients":1000000000,"seeds":1,"losses":[0],"scale":1}}`)
	if _, err := ReadSimulation(s.Dir); err == nil || !strings.Contains(err.Error(), "clients: from 1 to 100") {
		t.Errorf("a changed plan: %v", err)
	}
}
