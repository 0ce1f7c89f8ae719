package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
)

// Names of files in an experiment's directory.
const (
	SamplesName = "samples.csv"
	ReportName  = "report.json"
	FileName    = "experiment.toml" // what was run
	StateName   = "state.json"
)

// attempts is how often a repetition is measured in one session while the emulator is late.
const attempts = 3

// fewFar packets may be far too late in any sample: some samples have few packets, of which one is more than a hundredth.
// A group of such samples is refused all the same if it has too many.
const fewFar = 2

// warmUp is how many circuits of each handshake are not counted: they open the links.
const warmUp = 3

// Progress says how far a run is.
type Progress struct {
	Done, Of int
	Each     time.Duration // what a sample takes, on average
	Late     int           // samples that do not count
}

// state says what is in an experiment's directory.
type state struct {
	Digest   string    `json:"digest"` // of the file
	Sessions []Session `json:"sessions"`
}

// Session is one time when the experiment was begun.
type Session struct {
	Began   time.Time         `json:"began"`
	Version string            `json:"version"`
	Machine benchcirc.Machine `json:"machine"`
}

// Tasks returns all that an experiment measures, in its order. Handshakes take turns, so that what the machine does
// meanwhile is the same for all.
func (f *File) Tasks() []Task {
	luck := rand.New(rand.NewPCG(f.Seed, 1))
	var out []Task
	downloads, directories := 0, 0
	for rep := 1; rep <= f.Repetitions; rep++ {
		for _, i := range luck.Perm(len(f.Handshakes)) {
			out = append(out, Task{KindCircuit, f.Handshakes[i].String(), rep})
		}
		for ; downloads < f.Downloads*rep/f.Repetitions; downloads++ {
			for _, i := range luck.Perm(len(f.Handshakes)) {
				out = append(out, Task{KindDownload, f.Handshakes[i].String(), downloads + 1})
			}
		}
		for ; directories < f.Directories*rep/f.Repetitions; directories++ {
			out = append(out, Task{KindDirectory, "", directories + 1})
		}
	}
	return out
}

// Programs are what runs outside this process, if a node of an experiment is C tor's.
type Programs struct {
	Tor  string   // its path
	Self []string // this program: its command "experiment beside" runs another one beside the targets, and "tor" is a node of Chive's
}

// Run does what a file says and is not done yet, and writes samples and the report into a directory. progress is called
// after each sample. When ctx ends, what was measured is there, and the next Run goes on.
func Run(ctx context.Context, f *File, dir, version string, p Programs, progress func(Progress)) (*Report, error) {
	return run(ctx, f, dir, version, progress, func(session int) (*Site, error) {
		if f.HasTor() {
			return emulateTor(ctx, f, session, dir, p)
		}
		return emulate(ctx, f, session)
	})
}

// RunAt is Run on a network that runs elsewhere, whose links nobody here emulates.
func RunAt(ctx context.Context, f *File, dir, version string, at *Site, progress func(Progress)) (*Report, error) {
	return run(ctx, f, dir, version, progress, func(int) (*Site, error) { return at, nil })
}

func run(ctx context.Context, f *File, dir, version string, progress func(Progress), start func(session int) (*Site, error)) (r *Report, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	st, err := begin(f, dir, version)
	if err != nil {
		return nil, err
	}
	file, have, err := openSamples(filepath.Join(dir, SamplesName), len(f.Path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	left := remaining(f, have)
	if len(left) > 0 {
		at, err := start(len(st.Sessions))
		if err != nil {
			return nil, err
		}
		m, err := newMachine(ctx, f, len(st.Sessions), at)
		if err != nil {
			return nil, err
		}
		more, err := m.all(ctx, left, file, progress)
		if err = errors.Join(err, m.close()); err != nil {
			return nil, err
		}
		have = append(have, more...)
	}
	r = NewReport(f, st.Sessions, have)
	return r, atomicfile.WriteJSON(filepath.Join(dir, ReportName), r, atomicfile.Report)
}

// remaining are the tasks without a sample that counts. Those for which the machine was too slow are tried again: it may have
// less to do now.
func remaining(f *File, have []Sample) (left []Task) {
	over := map[Task]bool{}
	for i := range have {
		if !have[i].Late {
			over[have[i].Task] = true
		}
	}
	for _, t := range f.Tasks() {
		if !over[t] {
			left = append(left, t)
		}
	}
	return left
}

// begin notes that the experiment is begun in a directory.
func begin(f *File, dir, version string) (*state, error) {
	st := &state{Digest: digest(f.Text)}
	name := filepath.Join(dir, StateName)
	was, err := readState(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.WriteFile(filepath.Join(dir, FileName), f.Text, 0o644); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
	case err != nil:
		return nil, err
	case was.Digest != st.Digest:
		return nil, fault.New(fault.Config, "%s has the samples of another experiment, or of another version of this file: choose another directory", dir)
	default:
		st = was
	}
	st.Sessions = append(st.Sessions, Session{time.Now().UTC().Truncate(time.Second), version, benchcirc.ThisMachine()})
	return st, atomicfile.WriteJSON(name, st, atomicfile.Report)
}

// digest names a file's text.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func readState(name string) (*state, error) {
	doc, err := os.ReadFile(name)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	st := new(state)
	if err := json.Unmarshal(doc, st); err != nil {
		return nil, fault.New(fault.Config, "%s: %w", name, err)
	}
	return st, nil
}

// machine is a network with who measures it.
type machine struct {
	file     *File
	session  int
	site     *Site
	builders map[string]*benchcirc.Builder

	stop context.CancelFunc // ends the load
	load sync.WaitGroup
}

func newMachine(ctx context.Context, f *File, session int, at *Site) (m *machine, err error) {
	m = &machine{file: f, session: session, site: at, builders: map[string]*benchcirc.Builder{}, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	for _, h := range f.Handshakes {
		b, err := benchcirc.NewBuilder(ctx, at.Network, at.Path, h.Name, h.Carriage, at.Dial)
		if err != nil {
			return m, fault.New(fault.KindOf(err), "%v: %w", h, err)
		}
		m.builders[h.String()] = b
		var failed []error
		for range warmUp {
			circ, _, err := b.Open(ctx)
			if err != nil { // a link that loses much may let no circuit through now and then
				failed = append(failed, err)
				continue
			}
			b.Over(circ)
		}
		if len(failed) == warmUp {
			return m, fault.New(fault.KindOf(failed[0]), "%v: the first %d circuits: %w", h, warmUp, failed[0])
		}
	}
	m.startLoad(ctx)
	return m, nil
}

// startLoad begins the downloads beside the measurement. They use circuits of the first handshake.
func (m *machine) startLoad(ctx context.Context) {
	ctx, m.stop = context.WithCancel(ctx)
	b := m.builders[m.file.Handshakes[0].String()]
	for range m.file.Load {
		m.load.Go(func() {
			for ctx.Err() == nil {
				circ, _, err := b.Open(ctx)
				for err == nil { // a circuit is used until it fails
					_, _, err = download(ctx, circ, m.site.Web, m.file.Size)
				}
				if circ != nil {
					b.Over(circ)
				}
				select { // a network that is broken is not asked all the time
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
}

func (m *machine) close() error {
	m.stop()
	m.load.Wait()
	for _, b := range m.builders {
		b.Close()
	}
	if m.site.close == nil {
		return nil
	}
	return m.site.close()
}

// all does tasks, and writes what they give.
func (m *machine) all(ctx context.Context, tasks []Task, file *samplesFile, progress func(Progress)) (out []Sample, err error) {
	began := time.Now()
	p := Progress{Of: len(tasks)}
	for i, t := range tasks {
		for range attempts {
			if err := m.over(ctx, p); err != nil {
				return out, err
			}
			s := m.measure(ctx, t)
			if err := m.over(ctx, p); err != nil { // what failed for that reason does not count
				return out, err
			}
			if err := file.add(&s); err != nil {
				return out, err
			}
			out = append(out, s)
			if !s.Late {
				break
			}
			p.Late++
		}
		p.Done = i + 1
		p.Each = time.Since(began) / time.Duration(p.Done)
		progress(p)
	}
	return out, nil
}

// over is why nothing more is measured; nil: it goes on.
func (m *machine) over(ctx context.Context, p Progress) error {
	const left = "%d of %d samples are written; run the same again to go on: %w"
	if ctx.Err() != nil {
		return fault.Ended(ctx, left, p.Done, p.Of, context.Cause(ctx))
	}
	if err := m.site.broken(); err != nil {
		return fault.New(fault.KindOf(err), left, p.Done, p.Of, err)
	}
	return nil
}

// measure does a task.
func (m *machine) measure(ctx context.Context, t Task) Sample {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := Sample{Task: t, Session: m.session, Values: map[string]float64{}}
	before := m.site.lateness()
	if err := m.try(ctx, &s); err != nil {
		s.Failed = strings.Join(strings.Fields(err.Error()), " ")
	}
	s.Lateness = Lateness{m.site.lateness().Since(before)}
	judged := s.Lateness.Lateness
	judged.Far -= min(judged.Far, fewFar)
	s.Late = links.Bound{}.Refuse(judged) != nil
	return s
}

func (m *machine) try(ctx context.Context, s *Sample) error {
	b := m.builders[s.Handshake]
	if s.Kind == KindDirectory {
		took, err := m.builders[m.file.Handshakes[0].String()].Directory(ctx)
		if err == nil {
			s.Values[measureDirectory] = millis(took)
		}
		return err
	}
	circ, built, err := b.Open(ctx)
	if err != nil {
		return err
	}
	defer b.Over(circ)
	if s.Kind == KindDownload {
		return m.download(ctx, circ, s)
	}
	s.Values[MeasureTotal] = built.Total / 1000
	for i, name := range measures(len(m.file.Path))[1 : len(m.file.Path)+1] {
		s.Values[name] = built.Hops[i].Wall / 1000
	}
	opened, trip, err := Echo(ctx, circ, m.site.Echo)
	if err == nil {
		s.Values[measureBegin], s.Values[measureTrip] = millis(opened), millis(trip)
	}
	return err
}

func (m *machine) download(ctx context.Context, circ *circuit.Circuit, s *Sample) error {
	first, rest, err := download(ctx, circ, m.site.Web, m.file.Size)
	if err == nil {
		s.Values[MeasureFirst] = millis(first)
		s.Values[measureGoodput] = float64(m.file.Size) * 8 / 1e6 / rest.Seconds()
	}
	return err
}
