package wan

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// maxAnswers bounds the file of a client's answers, in bytes.
const maxAnswers = 16 << 20

// ReadSimulation reads what the simulator found, in the directory that Simulation has written. It writes runs, samples
// and the report there, as Run does. Runs that were not simulated are missing in the report.
func ReadSimulation(dir string) (r *Report, err error) {
	st, err := readState(dir)
	if err != nil {
		return nil, err
	}
	if !st.simulated() {
		return nil, fault.New(fault.Config, "%s has the samples of a run in namespaces, not those of a simulation", dir)
	}
	found := map[Task][][]answer{}
	for _, t := range st.Plan.Tasks() {
		at := filepath.Join(dir, t.name())
		if _, err := os.Stat(filepath.Join(at, simData)); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		if found[t], err = readAnswers(filepath.Join(at, simData, simHosts), st.Plan.Layout(t.Seed)); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, fault.New(fault.Config, "%s has no results of a simulation: run shadow in its directories first", dir)
	}
	for _, name := range []string{RunsName, SamplesName} { // of a call before
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fault.Wrap(fault.Local, err)
		}
	}
	f, err := openResults(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for _, t := range st.Plan.Tasks() {
		answers, ok := found[t]
		if !ok {
			continue
		}
		l := st.Plan.Layout(t.Seed)
		if err := f.add(RunResult{Task: t, Session: 1, Took: took(l, answers)}, l, answers); err != nil {
			return nil, err
		}
	}
	r = NewReport(&st.Plan, st.Sessions, f.runs, f.samples)
	return r, atomicfile.WriteJSON(filepath.Join(dir, ReportName), r, atomicfile.Report)
}

// took is when the last page was there.
func took(l *Layout, answers [][]answer) (last time.Duration) {
	for i, all := range answers {
		for _, a := range all {
			last = max(last, l.Clients[i].Requests[a.Request].At+time.Duration(a.Total*1e6))
		}
	}
	return last
}

// readAnswers reads what all clients of a run have written.
func readAnswers(hosts string, l *Layout) (out [][]answer, err error) {
	for _, c := range l.Clients {
		dir := filepath.Join(hosts, c.Name)
		name := filepath.Join(dir, simAnswers)
		doc, err := atomicfile.ReadRegular(name, maxAnswers)
		if err != nil {
			return nil, fault.New(fault.Config, "the simulation has not ended well, or is not over: %w%s", err, shadowfile.LastWords(dir))
		}
		all, err := parseAnswers(string(doc), len(c.Requests))
		if err != nil {
			return nil, fault.New(fault.Config, "%s: %w", name, err)
		}
		out = append(out, all)
	}
	return out, nil
}

// parseAnswers reads a client's answers: one to each request, and the last line.
func parseAnswers(doc string, requests int) (out []answer, err error) {
	rest, whole := strings.CutSuffix(doc, sayOver+"\n")
	if !whole {
		return nil, fault.New(fault.Config, "it does not end with %q: it was cut off", sayOver)
	}
	seen := make([]bool, requests)
	for line := range strings.Lines(rest) {
		a, err := readAnswer(strings.TrimSuffix(line, "\n"), requests)
		if err != nil {
			return nil, fault.New(fault.Config, "line %d: %w", len(out)+1, err)
		}
		if seen[a.Request] {
			return nil, fault.New(fault.Config, "line %d answers request %d again", len(out)+1, a.Request)
		}
		seen[a.Request] = true
		out = append(out, a)
	}
	if len(out) < requests {
		return nil, fault.New(fault.Config, "%d of %d requests have answers", len(out), requests)
	}
	return out, nil
}
