package deploy

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// Sample is one circuit. Times are milliseconds.
type Sample struct {
	Circuit   int // from 1, of its handshake
	Handshake string
	Failed    string // why; "": it was built, and carried a byte to the target and back
	Total     float64
	Hops      []float64
	Begin     float64 // to open a stream to the target
	Trip      float64 // of a byte
}

// Report is what the client found. It has the same form wherever the machines are.
type Report struct {
	Began      time.Time         `json:"began"`
	Version    string            `json:"version"`
	Machine    benchcirc.Machine `json:"machine"` // of the client
	Seed       uint64            `json:"seed"`
	Path       []string          `json:"path"`
	Circuits   int               `json:"circuits"` // wanted, with each handshake
	Handshakes []*Handshake      `json:"handshakes"`
}

// Handshake is what the circuits with one handshake say. Measures are milliseconds.
type Handshake struct {
	Name     string                        `json:"name"`
	Built    int                           `json:"built"`
	Failed   int                           `json:"failed"`
	Errors   []string                      `json:"errors,omitempty"` // the first few
	Measures map[string]experiment.Summary `json:"measures_ms,omitempty"`

	values map[string][]float64
}

// maxErrors bounds the errors that a report tells of one handshake.
const maxErrors = 5

func newReport(m *Measurement) *Report {
	r := &Report{Began: time.Now().UTC().Truncate(time.Second), Version: m.Version, Machine: benchcirc.ThisMachine(), Seed: m.Seed, Path: m.Path, Circuits: m.Circuits}
	for _, h := range m.Handshakes {
		r.Handshakes = append(r.Handshakes, &Handshake{Name: h, values: map[string][]float64{}})
	}
	return r
}

func (r *Report) add(s Sample) {
	h := r.Handshakes[slices.IndexFunc(r.Handshakes, func(h *Handshake) bool { return h.Name == s.Handshake })]
	if s.Failed != "" {
		h.Failed++
		if len(h.Errors) < maxErrors {
			h.Errors = append(h.Errors, s.Failed)
		}
		return
	}
	h.Built++
	for i, name := range measures(len(s.Hops)) {
		h.values[name] = append(h.values[name], s.values()[i])
	}
}

func (r *Report) finish() {
	for _, h := range r.Handshakes {
		h.Measures = map[string]experiment.Summary{}
		for name, v := range h.values {
			h.Measures[name] = experiment.Summarize(v)
		}
	}
}

// check checks what a client has sent: it is what the inventory wanted.
func (r *Report) check(inv *Inventory) error {
	if r.Circuits != inv.Circuits || len(r.Handshakes) != len(inv.Handshakes) {
		return fault.New(fault.Protocol, "%d circuits with %d handshakes, not %d with %d", r.Circuits, len(r.Handshakes), inv.Circuits, len(inv.Handshakes))
	}
	for i, h := range r.Handshakes {
		if h == nil || h.Name != inv.Handshakes[i] {
			return fault.New(fault.Protocol, "handshake %d is not %s", i+1, inv.Handshakes[i])
		}
		if h.Built < 0 || h.Failed < 0 || h.Built+h.Failed != r.Circuits || len(h.Errors) > maxErrors {
			return fault.New(fault.Protocol, "%s: %d of %d circuits built, and %d failed", h.Name, h.Built, r.Circuits, h.Failed)
		}
	}
	return nil
}

// Complete tells whether all circuits were built.
func (r *Report) Complete() bool {
	return !slices.ContainsFunc(r.Handshakes, func(h *Handshake) bool { return h.Built != r.Circuits })
}

// Table is the report as text.
func (r *Report) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %11s %9s %9s %9s %9s %9s %9s %9s\n", "ms", "circuits", "median", "mean", "p95", "hop1", "hop2", "hop3", "trip")
	for _, h := range r.Handshakes {
		t := h.Measures["total"]
		fmt.Fprintf(&b, "%-10s %4d of %-4d %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f\n", h.Name, h.Built, r.Circuits, t.Median, t.Mean, t.P95,
			h.Measures["hop1"].Median, h.Measures["hop2"].Median, h.Measures["hop3"].Median, h.Measures["round_trip"].Median)
		for _, e := range h.Errors {
			fmt.Fprintf(&b, "           %s\n", clean(e))
		}
	}
	return b.String()
}

// measures are the names of a sample's values.
func measures(hops int) []string {
	out := []string{"total"}
	for i := range hops {
		out = append(out, fmt.Sprintf("hop%d", i+1))
	}
	return append(out, "begin", "round_trip")
}

func (s *Sample) values() []float64 {
	return append(append([]float64{s.Total}, s.Hops...), s.Begin, s.Trip)
}

// samplesFile is a file of samples.
type samplesFile struct {
	f    *os.File
	w    *csv.Writer
	hops int
}

func createSamples(name string, hops int) (*samplesFile, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	s := &samplesFile{f, csv.NewWriter(f), hops}
	head := []string{"circuit", "handshake", "failed"}
	for _, m := range measures(hops) {
		head = append(head, m+"_ms")
	}
	return s, fault.Wrap(fault.Local, s.w.Write(head))
}

// add writes a sample at once, so that it is there if the run is killed.
func (f *samplesFile) add(s *Sample) error {
	row := []string{strconv.Itoa(s.Circuit), s.Handshake, strings.Join(strings.Fields(s.Failed), " ")}
	for _, v := range s.values() {
		row = append(row, strconv.FormatFloat(v, 'f', 3, 64))
	}
	if s.Failed != "" {
		row = append(row[:3], make([]string, len(measures(f.hops)))...)
	}
	if err := f.w.Write(row); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	f.w.Flush()
	return fault.Wrap(fault.Local, f.w.Error())
}

func (f *samplesFile) close() error {
	f.w.Flush()
	return fault.Wrap(fault.Local, errors.Join(f.w.Error(), f.f.Close()))
}

// maxReport bounds a report that is read, in bytes.
const maxReport = 1 << 20

// ReadReport reads the report in a directory of results.
func ReadReport(dir string) (*Report, error) {
	name := filepath.Join(dir, ReportName)
	doc, err := atomicfile.ReadRegular(name, maxReport)
	if err != nil {
		return nil, fault.New(fault.Config, "%w", err)
	}
	r := new(Report)
	if err := json.Unmarshal(doc, r); err != nil {
		return nil, fault.New(fault.Config, "%s: %w", name, err)
	}
	if len(r.Handshakes) == 0 || slices.Contains(r.Handshakes, nil) {
		return nil, fault.New(fault.Config, "%s: no report of a client", name)
	}
	return r, nil
}
