package wan

import (
	"encoding/json"
	"path/filepath"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// Bounds of a directory's files, in bytes.
const (
	maxState   = 16 << 20
	maxSamples = 256 << 20
)

// Found is what is in the directory of a comparison.
type Found struct {
	state
	runs    []RunResult
	samples []Sample
}

// Load reads the directory of a comparison, and changes nothing. A last line that was cut off does not count.
func Load(dir string) (*Found, error) {
	st, err := readState(dir)
	if err != nil {
		return nil, err
	}
	f := &Found{state: *st}
	for _, t := range []struct {
		name    string
		columns []string
		take    func(row []string) error
	}{{RunsName, runColumns, func(row []string) error {
		x, err := parseRun(row)
		f.runs = append(f.runs, x)
		return err
	}}, {SamplesName, sampleColumns, func(row []string) error {
		x, err := parseSample(row)
		f.samples = append(f.samples, x)
		return err
	}}} {
		name := filepath.Join(dir, t.name)
		doc, err := atomicfile.ReadRegular(name, maxSamples)
		if err != nil {
			return nil, fault.New(fault.Config, "%w", err)
		}
		rows, _, err := parseTable(name, doc, t.columns)
		if err != nil {
			return nil, err
		}
		if err := eachRow(name, rows, t.take); err != nil {
			return nil, err
		}
	}
	for i, s := range f.samples {
		if s.Client >= st.Plan.Clients {
			return nil, fault.New(fault.Config, "%s:%d: there is no client %d", filepath.Join(dir, SamplesName), i+2, s.Client)
		}
	}
	for i, x := range f.runs {
		if x.Seed < 1 || x.Seed > st.Plan.Seeds {
			return nil, fault.New(fault.Config, "%s:%d: there is no seed %d", filepath.Join(dir, RunsName), i+2, x.Seed)
		}
	}
	return f, nil
}

// readState reads what was begun in a directory.
func readState(dir string) (*state, error) {
	name := filepath.Join(dir, stateName)
	doc, err := atomicfile.ReadRegular(name, maxState)
	if err != nil {
		return nil, fault.New(fault.Config, "no comparison is there: %w", err)
	}
	st := new(state)
	if err := json.Unmarshal(doc, st); err != nil {
		return nil, fault.New(fault.Config, "%s: %w", name, err)
	}
	if err := st.Plan.Check(); err != nil {
		return nil, fault.New(fault.Config, "%s: %w", name, err)
	}
	return st, nil
}

// simulated is true of a directory for the simulator.
func (s *state) simulated() bool { return len(s.Sessions) > 0 && s.Sessions[0].Simulator != "" }

// good are the runs that count.
func (f *Found) good() map[Task]bool {
	out := map[Task]bool{}
	for _, x := range f.runs {
		if !x.Late {
			out[x.Task] = true
		}
	}
	return out
}
