package experiment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// maxSamples bounds a file of samples that came from elsewhere.
const maxSamples = 1 << 30

// Read reads the directory of an experiment: its file, when it was begun, and its samples. A last line of samples that
// was cut off does not count.
func Read(dir string) (*File, []Session, []Sample, error) {
	name := filepath.Join(dir, FileName)
	doc, err := readFile(name)
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := Parse(name, doc)
	if err != nil {
		return nil, nil, nil, err
	}
	st, err := readState(filepath.Join(dir, StateName))
	if err != nil {
		return nil, nil, nil, err
	}
	samples, err := ReadSamples(filepath.Join(dir, SamplesName))
	return f, st.Sessions, samples, err
}

// ReadSamples reads a file of samples, without a last line that was cut off. Errors name the line.
func ReadSamples(name string) ([]Sample, error) {
	doc, err := atomicfile.ReadRegular(name, maxSamples)
	if err != nil {
		return nil, fault.New(fault.Config, "%w", err)
	}
	return parseSamples(name, whole(doc))
}

// Writer writes samples as they come.
type Writer struct{ file *samplesFile }

// NewWriter makes a file of samples of circuits with so many hops. It must not be there.
func NewWriter(name string, hops int) (*Writer, error) {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Config, "%s is there already: it stays as it is", name)
	}
	f, _, err := openSamples(name, hops)
	if err != nil {
		return nil, err
	}
	return &Writer{f}, nil
}

// Add writes a sample.
func (w *Writer) Add(s *Sample) error { return w.file.add(s) }

// Close closes the file.
func (w *Writer) Close() error { return w.file.close() }

// Take writes the directory of an experiment whose samples were taken elsewhere, as Run writes its own.
func Take(f *File, dir string, sessions []Session, samples []Sample) (r *Report, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	w, err := NewWriter(filepath.Join(dir, SamplesName), len(f.Path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for i := range samples {
		if err := w.Add(&samples[i]); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), f.Text, 0o644); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if err := atomicfile.WriteJSON(filepath.Join(dir, StateName), &state{digest(f.Text), sessions}, atomicfile.Report); err != nil {
		return nil, err
	}
	r = NewReport(f, sessions, samples)
	return r, atomicfile.WriteJSON(filepath.Join(dir, ReportName), r, atomicfile.Report)
}
