package shadow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/fault"
)

// Import reads what a simulation found: dir is that of the export, or what the simulator made in it. It writes the
// directory of an experiment, as a run of its own does. The report is there, too, when not all was measured, with an
// error that says so.
func Import(dir, out string) (*experiment.Report, error) {
	data := dir
	if _, err := os.Stat(filepath.Join(dir, configName)); err == nil {
		data = filepath.Join(dir, dataDir)
	}
	hosts := filepath.Join(data, hostsDir)
	if _, err := os.Stat(hosts); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); err == nil {
			return nil, fault.New(fault.Config, "%s has no results of a simulation: run shadow in it first", dir)
		}
		return nil, fault.New(fault.Config, "there is no directory %s", dir)
	} else if err != nil {
		return nil, fault.New(fault.Config, "%w", err)
	}
	at := filepath.Join(hosts, measuringHost)
	f, sessions, samples, err := experiment.Read(filepath.Join(at, resultsDir))
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%w%s", err, shadowfile.LastWords(at))
	}
	ours, err := os.ReadFile(filepath.Join(data, experimentName))
	if err != nil {
		return nil, fault.New(fault.Config, "%w", err)
	}
	if string(ours) != string(f.Text) {
		return nil, fault.New(fault.Config, "%s has the results of another experiment than %s", at, filepath.Join(data, experimentName))
	}
	have := map[experiment.Task]bool{}
	for _, s := range samples {
		have[s.Task] = true
	}
	tasks, missing := f.Tasks(), 0
	for _, t := range tasks {
		if !have[t] {
			missing++
		}
	}
	fetches, err := readFetches(hosts)
	if err != nil {
		return nil, err
	}
	if len(samples)+len(fetches) == 0 {
		return nil, fault.New(fault.Config, "%s: nothing was measured%s", at, shadowfile.LastWords(at))
	}
	f.Name = filepath.Base(filepath.Clean(out)) + ".toml" // as that directory's report has it ever after
	r, err := experiment.Take(f, out, sessions, append(samples, fetches...))
	if err != nil {
		return nil, err
	}
	if missing > 0 {
		return r, fault.New(fault.Network, "%d of %d samples are missing: the simulation was too short (export with a longer --stop), or the client has failed%s",
			missing, len(tasks), shadowfile.LastWords(at))
	}
	return r, nil
}

// readFetches reads what clients found, and numbers that anew: each client has its own numbers.
func readFetches(hosts string) (out []experiment.Sample, err error) {
	number := map[string]int{}
	for i := range maxClients {
		name := filepath.Join(hosts, fmt.Sprintf("%s%d", roleUser, i))
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return out, nil
		}
		samples, err := experiment.ReadSamples(filepath.Join(name, fetchesName))
		if err != nil {
			return nil, fault.New(fault.KindOf(err), "%w%s", err, shadowfile.LastWords(name))
		}
		for _, s := range samples {
			if s.Kind != experiment.KindFetch {
				return nil, fault.New(fault.Config, "%s: a client has samples of the kind %q", name, s.Kind)
			}
			number[s.Handshake]++
			s.Repetition = number[s.Handshake]
			out = append(out, s)
		}
	}
	return out, nil
}
