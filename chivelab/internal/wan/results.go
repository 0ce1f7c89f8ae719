package wan

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
)

// RunResult is one run.
type RunResult struct {
	ID int // from 1
	Task
	Session  int
	Late     bool // the emulator was late: the samples do not count
	Lateness links.Lateness
	Busy     float64 // the part of the machine's processors that was in use
	Took     time.Duration
}

// Sample is what became of one request.
type Sample struct {
	Run     int
	Client  int
	Request int
	Size    int64
	First   float64 // milliseconds
	Total   float64
	Failed  string // why; "": it came
}

var (
	runColumns    = []string{"run", "seed", "clients", "relays", "loss", "session", "late", "packets", "packets_late_ns", "packets_worst_ns", "packets_far", "packets_overrun", "busy", "took_ns"}
	sampleColumns = []string{"run", "client", "request", "size", "first_ms", "total_ms", "failed"}
)

// results are the files of runs and samples, to which a run is added when it is over. The samples come first: those of a
// run that is not listed were cut off, and do not count.
type results struct {
	runFile, sampleFile *os.File
	runs                []RunResult
	samples             []Sample
}

// openResults opens the files of a directory. A last line that was cut off is removed.
func openResults(dir string) (f *results, err error) {
	f = new(results)
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	var rows [][]string
	name := filepath.Join(dir, RunsName)
	if f.runFile, rows, err = openTable(name, runColumns); err != nil {
		return f, err
	}
	if err := eachRow(name, rows, func(row []string) error {
		x, err := parseRun(row)
		f.runs = append(f.runs, x)
		return err
	}); err != nil {
		return f, err
	}
	name = filepath.Join(dir, SamplesName)
	if f.sampleFile, rows, err = openTable(name, sampleColumns); err != nil {
		return f, err
	}
	return f, eachRow(name, rows, func(row []string) error {
		x, err := parseSample(row)
		f.samples = append(f.samples, x)
		return err
	})
}

// eachRow takes the rows of a table.
func eachRow(name string, rows [][]string, take func(row []string) error) error {
	for i, row := range rows {
		if err := take(row); err != nil {
			return fault.New(fault.Config, "%s:%d: %w", name, i+2, err)
		}
	}
	return nil
}

func (f *results) close() error {
	for _, x := range []*os.File{f.runFile, f.sampleFile} {
		if x != nil {
			if err := x.Close(); err != nil {
				return fault.Wrap(fault.Local, err)
			}
		}
	}
	return nil
}

// openTable opens a table, makes it if it is not there, and returns its rows.
func openTable(name string, columns []string) (*os.File, [][]string, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Local, err)
	}
	rows, err := readTable(name, file, columns)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, rows, nil
}

func readTable(name string, file *os.File, columns []string) ([][]string, error) {
	doc, err := os.ReadFile(name)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	rows, whole, err := parseTable(name, doc, columns)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(int64(whole)); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if _, err := file.Seek(int64(whole), 0); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if whole == 0 {
		head, err := table([][]string{columns})
		if err != nil {
			return nil, err
		}
		_, err = file.Write(head)
		return nil, fault.Wrap(fault.Local, err)
	}
	return rows, nil
}

// parseTable returns the rows of a table, and the length of its whole lines.
func parseTable(name string, doc []byte, columns []string) (rows [][]string, whole int, err error) {
	head, err := table([][]string{columns})
	if err != nil {
		return nil, 0, err
	}
	if whole = bytes.LastIndexByte(doc, '\n') + 1; whole == 0 {
		return nil, 0, nil
	}
	if !bytes.HasPrefix(doc, head) {
		return nil, 0, fault.New(fault.Config, "%s:1: this is another table", name)
	}
	if rows, err = csv.NewReader(bytes.NewReader(doc[:whole])).ReadAll(); err != nil {
		return nil, 0, fault.New(fault.Config, "%s: %w", name, err)
	}
	return rows[1:], whole, nil
}

// table is rows as text.
func table(rows [][]string) ([]byte, error) {
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(rows); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return b.Bytes(), nil
}

// next is the number of the next run: those of runs that were cut off are not used again.
func (f *results) next() int {
	last := 0
	for _, x := range f.runs {
		last = max(last, x.ID)
	}
	for _, s := range f.samples {
		last = max(last, s.Run)
	}
	return last + 1
}

// add writes a run.
func (f *results) add(x RunResult, l *Layout, answers [][]answer) error {
	x.ID = f.next()
	var rows [][]string
	for c, all := range answers {
		for _, a := range all {
			s := Sample{x.ID, c, a.Request, l.Clients[c].Requests[a.Request].Size, a.First, a.Total, a.Failed}
			f.samples = append(f.samples, s)
			rows = append(rows, s.row())
		}
	}
	b, err := table(rows)
	if err != nil {
		return err
	}
	if _, err := f.sampleFile.Write(b); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if b, err = table([][]string{x.row()}); err != nil {
		return err
	}
	if _, err := f.runFile.Write(b); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	f.runs = append(f.runs, x)
	return nil
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func (x *RunResult) row() []string {
	l := x.Lateness
	return []string{strconv.Itoa(x.ID), strconv.Itoa(x.Seed), string(x.Side.Clients), string(x.Side.Relays), number(x.Loss), strconv.Itoa(x.Session),
		strconv.FormatBool(x.Late), strconv.FormatUint(l.Packets, 10), strconv.FormatInt(int64(l.Sum), 10), strconv.FormatInt(int64(l.Worst), 10),
		strconv.FormatUint(l.Far, 10), strconv.FormatUint(l.Overrun, 10), number(x.Busy), strconv.FormatInt(int64(x.Took), 10)}
}

func (s *Sample) row() []string {
	return []string{strconv.Itoa(s.Run), strconv.Itoa(s.Client), strconv.Itoa(s.Request), strconv.FormatInt(s.Size, 10), number(s.First), number(s.Total), s.Failed}
}

// fields reads the numbers of a row, and keeps the first mistake.
type fields struct {
	columns, row []string
	err          error
}

func (f *fields) whole(i int) int64 {
	n, err := strconv.ParseInt(f.row[i], 10, 64)
	if (err != nil || n < 0) && f.err == nil {
		f.err = fault.New(fault.Config, "%s: %q is no number", f.columns[i], f.row[i])
	}
	return n
}

func (f *fields) real(i int) float64 {
	v, err := strconv.ParseFloat(f.row[i], 64)
	if (err != nil || !(v >= 0) || v-v != 0) && f.err == nil {
		f.err = fault.New(fault.Config, "%s: %q is no number", f.columns[i], f.row[i])
	}
	return v
}

func parseRun(row []string) (RunResult, error) {
	f := &fields{columns: runColumns, row: row}
	x := RunResult{ID: int(f.whole(0)), Task: Task{int(f.whole(1)), Side{Program(row[2]), Program(row[3])}, f.real(4)}, Session: int(f.whole(5)),
		Busy: f.real(12), Took: time.Duration(f.whole(13)),
		Lateness: links.Lateness{Packets: uint64(f.whole(7)), Sum: time.Duration(f.whole(8)), Worst: time.Duration(f.whole(9)), Far: uint64(f.whole(10)), Overrun: uint64(f.whole(11))}}
	if !slices.Contains(Sides, x.Side) && f.err == nil {
		f.err = fault.New(fault.Config, "clients of %q and relays of %q are no side", row[2], row[3])
	}
	var err error
	if x.Late, err = strconv.ParseBool(row[6]); err != nil && f.err == nil {
		f.err = fault.New(fault.Config, "late: %q is neither true nor false", row[6])
	}
	return x, f.err
}

func parseSample(row []string) (Sample, error) {
	f := &fields{columns: sampleColumns, row: row}
	s := Sample{int(f.whole(0)), int(f.whole(1)), int(f.whole(2)), f.whole(3), f.real(4), f.real(5), row[6]}
	return s, f.err
}
