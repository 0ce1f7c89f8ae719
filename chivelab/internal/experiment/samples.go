package experiment

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
)

// Kinds of samples.
const (
	KindCircuit   = "circuit"
	KindDownload  = "download"
	KindDirectory = "directory"
	// KindFetch is a page that another client asked for, on paths of its own. Its name stands for the handshake.
	KindFetch = "fetch"
)

// Measures of samples: milliseconds, but for Mbit/s of goodput. Those of hops are hop1, hop2 and so on.
const (
	MeasureTotal     = "total"
	measureBegin     = "begin"
	measureTrip      = "round_trip"
	MeasureFirst     = "first_byte"
	measureGoodput   = "goodput"
	measureDirectory = "directory"
)

// measures are the columns of values for circuits of so many hops.
func measures(hops int) []string {
	out := []string{MeasureTotal}
	for i := range hops {
		out = append(out, fmt.Sprintf("hop%d", i+1))
	}
	return append(out, measureBegin, measureTrip, MeasureFirst, measureGoodput, measureDirectory)
}

// Task is one thing to measure.
type Task struct {
	Kind       string
	Handshake  string // "" for the directory
	Repetition int    // from 1
}

// Sample is what a task gave.
type Sample struct {
	Task
	Session int                // from 1: how often the experiment was begun
	Late    bool               // the emulator was late: the sample does not count
	Failed  string             // why; "": it succeeded
	Values  map[string]float64 // by measure
	Lateness
}

// Lateness is that of the emulator's packets during a sample.
type Lateness struct{ links.Lateness }

// fixed are the columns beside the values.
var fixed = []string{"kind", "handshake", "repetition", "session", "late", "failed", "packets", "packets_late_ms", "packets_far", "packets_overrun"}

// samplesFile is a file of samples, to which a run adds.
type samplesFile struct {
	file    *os.File
	columns []string
}

// row is a sample as a line of the file.
func (s *Sample) row(columns []string) []string {
	out := []string{s.Kind, s.Handshake, strconv.Itoa(s.Repetition), strconv.Itoa(s.Session), strconv.FormatBool(s.Late), s.Failed,
		strconv.FormatUint(s.Packets, 10), number(millis(s.Sum)), strconv.FormatUint(s.Far, 10), strconv.FormatUint(s.Overrun, 10)}
	for _, c := range columns {
		if v, ok := s.Values[c]; ok {
			out = append(out, number(v))
		} else {
			out = append(out, "")
		}
	}
	return out
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }

// line is a row as text.
func line(row []string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(row); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	w.Flush()
	return b.Bytes(), fault.Wrap(fault.Local, w.Error())
}

// openSamples opens a file for more samples, and returns those that it has. A last line that was cut off when a run was
// killed is removed.
func openSamples(name string, hops int) (*samplesFile, []Sample, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Local, err)
	}
	s := &samplesFile{f, measures(hops)}
	have, err := s.begin(name)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return s, have, nil
}

func (s *samplesFile) begin(name string) ([]Sample, error) {
	doc, err := os.ReadFile(name)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	end := len(whole(doc))
	head, err := line(append(slices.Clone(fixed), s.columns...))
	if err != nil {
		return nil, err
	}
	var have []Sample
	if end == 0 {
		doc = head
	} else if doc = doc[:end]; !bytes.HasPrefix(doc, head) {
		return nil, fault.New(fault.Config, "%s has samples of another experiment", name)
	}
	if have, err = parseSamples(name, doc); err != nil {
		return nil, err
	}
	if err := s.file.Truncate(int64(end)); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if _, err := s.file.Seek(int64(end), 0); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if end == 0 {
		if _, err := s.file.Write(head); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
	}
	return have, nil
}

// add writes a sample. It is one write, so that a killed run leaves whole lines but for the last.
func (s *samplesFile) add(x *Sample) error {
	b, err := line(x.row(s.columns))
	if err != nil {
		return err
	}
	_, err = s.file.Write(b)
	return fault.Wrap(fault.Local, err)
}

func (s *samplesFile) close() error { return fault.Wrap(fault.Local, s.file.Close()) }

// parseSamples reads samples. Errors name the line.
func parseSamples(name string, doc []byte) ([]Sample, error) {
	r := csv.NewReader(bytes.NewReader(doc))
	head, err := r.Read()
	if err != nil || len(head) < len(fixed) || !slices.Equal(head[:len(fixed)], fixed) {
		return nil, fault.New(fault.Config, "%s:1: this is no file of samples", name)
	}
	var out []Sample
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fault.New(fault.Config, "%s: %w", name, err)
		}
		at, _ := r.FieldPos(0)
		s, err := parseSample(head, row)
		if err != nil {
			return nil, fault.New(fault.Config, "%s:%d: %w", name, at, err)
		}
		out = append(out, s)
	}
}

func parseSample(head, row []string) (s Sample, err error) {
	s = Sample{Task: Task{Kind: row[0], Handshake: row[1]}, Failed: row[5], Values: map[string]float64{}}
	whole := func(i int) uint64 {
		n, e := strconv.ParseUint(row[i], 10, 62)
		if e != nil && err == nil {
			err = fault.New(fault.Config, "%s: %q is no number", head[i], row[i])
		}
		return n
	}
	real := func(i int) float64 {
		v, e := strconv.ParseFloat(row[i], 64)
		if (e != nil || v-v != 0) && err == nil {
			err = fault.New(fault.Config, "%s: %q is no number", head[i], row[i])
		}
		return v
	}
	s.Repetition, s.Session = int(whole(2)), int(whole(3))
	var e error
	if s.Late, e = strconv.ParseBool(row[4]); e != nil && err == nil {
		err = fault.New(fault.Config, "late: %q is neither true nor false", row[4])
	}
	s.Packets, s.Far, s.Overrun = whole(6), whole(8), whole(9)
	s.Sum = duration(real(7))
	for i := len(fixed); i < len(row); i++ {
		if row[i] != "" {
			s.Values[head[i]] = real(i)
		}
	}
	return s, err
}

// whole is a document without a last line that was cut off.
func whole(doc []byte) []byte { return doc[:bytes.LastIndexByte(doc, '\n')+1] }
