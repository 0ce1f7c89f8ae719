package deploy

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/fault"
)

// metricsHead is the first line of the file with metrics. Seconds count from the monitor's start.
var metricsHead = []string{"seconds", "node", "metric", "value"}

// MaxMetricsFile bounds the file with metrics, in bytes. A deployment may run for months, and its figures show the whole
// run: so a full file loses every second look, and not its oldest ones, and later looks are twice as far apart.
const MaxMetricsFile = 64 << 20

// thinning is added to the name of a file that takes the other one's place.
const thinning = ".thinner"

// metricsFile is the file with metrics: looks at all nodes, the same time apart.
type metricsFile struct {
	name  string
	f     *os.File
	most  int64 // bytes
	size  int64
	apart int // ticks from one look in the file to the next
	tick  int // the number of the next tick
}

// newMetricsFile makes the file anew.
func newMetricsFile(dir string, most int64) (*metricsFile, error) {
	m := &metricsFile{name: filepath.Join(dir, MetricsName), most: most, apart: 1}
	head := line(metricsHead)
	m.size = int64(len(head))
	var err error
	if m.f, err = os.Create(m.name); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if _, err := m.f.Write(head); err != nil {
		return nil, fault.Wrap(fault.Local, errors.Join(err, m.f.Close()))
	}
	return m, nil
}

// line is a row as the file has it.
func line(row []string) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(row) // a buffer takes all
	w.Flush()
	return b.Bytes()
}

// wants is whether the next look comes into the file. It counts ticks.
func (m *metricsFile) wants() bool {
	m.tick++
	return (m.tick-1)%m.apart == 0
}

// add writes the look for which wants has asked.
func (m *metricsFile) add(rows [][]string) error {
	var look []byte
	for _, r := range rows {
		look = append(look, line(r)...)
	}
	for m.size+int64(len(look)) > m.most {
		before := m.size
		if err := m.thin(); err != nil {
			return err
		}
		if m.size == before {
			return fault.New(fault.Resource, "%s: one look at all nodes is %d bytes, and the file may have %d", m.name, len(look), m.most)
		}
		if (m.tick-1)%m.apart != 0 {
			return nil
		}
	}
	n, err := m.f.Write(look)
	m.size += int64(n)
	return fault.Wrap(fault.Local, err)
}

// thin takes every second look out of the file. Whoever reads the file meanwhile has the old one or the new one.
func (m *metricsFile) thin() (err error) {
	old, err := os.Open(m.name)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	less, err := os.Create(m.name + thinning)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if m.size, err = everySecond(less, old); err != nil {
		return fault.Wrap(fault.Local, errors.Join(err, less.Close()))
	}
	if err := errors.Join(less.Close(), m.f.Close(), os.Rename(m.name+thinning, m.name)); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	m.apart *= 2
	m.f, err = os.OpenFile(m.name, os.O_APPEND|os.O_WRONLY, 0)
	return fault.Wrap(fault.Local, err)
}

// everySecond copies the first look and every second one after it, and returns how many bytes that were. Rows of one look
// have the same time.
func everySecond(to io.Writer, from io.Reader) (size int64, err error) {
	r := csv.NewReader(from)
	r.ReuseRecord = true
	n := &counting{to: to}
	w := csv.NewWriter(n)
	at, look := "", 0
	for {
		row, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if row[0] != at { // the head counts, too
			at, look = row[0], look+1
		}
		if look != 1 && look%2 != 0 {
			continue
		}
		if err := w.Write(row); err != nil {
			return 0, err
		}
	}
	w.Flush()
	return n.size, w.Error()
}

// counting counts what it writes.
type counting struct {
	to   io.Writer
	size int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.size += int64(n)
	return n, err
}

func (m *metricsFile) close() error { return fault.Wrap(fault.Local, m.f.Close()) }
