package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/program"
)

// A Row is one thing that was measured, in one way.
type Row struct {
	Table   string `json:"table"`
	Way     string `json:"way"`            // a Kind, or a policy
	Case    string `json:"case,omitempty"` // under which condition
	Measure string `json:"measure"`
	Unit    string `json:"unit"`
	Dist
}

// The units.
const (
	unitMS    = "ms"
	unitRate  = "MB/s"
	unitMB    = "MB"
	unitShare = "%"
)

// A Part is what one step came to.
type Part struct {
	Step  string        `json:"step"`
	Began time.Time     `json:"began"`
	Took  time.Duration `json:"took_ns"`
	Rows  []Row         `json:"rows"`
}

// A Report is a run's parts, and where and how they came about.
type Report struct {
	About About  `json:"about"`
	Sizes Sizes  `json:"sizes"`
	Parts []Part `json:"parts"`
}

// rows returns the rows of a table, in the order of the parts.
func (r *Report) rows(table string) (out []Row) {
	for _, p := range r.Parts {
		for _, row := range p.Rows {
			if row.Table == table {
				out = append(out, row)
			}
		}
	}
	return out
}

// find returns one row.
func (r *Report) find(table, way, condition, measure string) (Row, bool) {
	for _, row := range r.rows(table) {
		if row.Way == way && row.Case == condition && row.Measure == measure {
			return row, true
		}
	}
	return Row{}, false
}

// store keeps finished parts in a directory, a file each, so that a run that was
// interrupted goes on where it was.
type store struct{ dir string }

// maxPart bounds a file of the store, in bytes.
const maxPart = 16 << 20

func (s store) path(name string) string { return filepath.Join(s.dir, "parts", name+".json") }

// open makes the directory. A directory of a run with other sizes or programs is
// refused: its parts and new ones must not stand in one report.
func (s store) open(about About, sizes Sizes) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "parts"), 0o755); err != nil {
		return err
	}
	mine := Report{About: about, Sizes: sizes}
	var before Report
	switch found, err := s.read("run", &before); {
	case err != nil:
		return err
	case !found:
		return s.write("run", mine)
	}
	before.About.Day = mine.About.Day // a run may last over midnight
	a, err1 := json.Marshal(before)
	b, err2 := json.Marshal(mine)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if string(a) != string(b) {
		return fmt.Errorf("%s has parts of another run: other sizes, programs or machine. Give another directory, or remove it", s.dir)
	}
	return nil
}

// read reads a file; found is false if it is not there.
func (s store) read(name string, into any) (found bool, err error) {
	b, err := program.ReadRegular(s.path(name), maxPart)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return false, fmt.Errorf("%s: %w: remove it, and it is measured again", s.path(name), err)
	}
	return true, nil
}

func (s store) write(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return program.WriteFile(s.path(name), b, 0o644)
}
