package scale

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// AtRest is a relay of which nobody asks anything.
type AtRest struct {
	// RSS counts the pages of the program's file that the kernel has mapped, too: 12 MB, or 18 MB for a file
	// that the linker has just written and nobody has copied.
	RSS  int64   // bytes, at the end
	Peak int64   // bytes, the most so far
	CPU  float64 // milliseconds of processor time a second
}

// Measured is what one relay did.
type Measured struct {
	Name                        string
	Base                        AtRest        // before the load
	WithLinks                   AtRest        // with links that have no circuit
	Whole                       AtRest        // with all circuits
	After                       AtRest        // after the load
	LinkCPU                     time.Duration // processor time of one link's handshakes
	Refused                     int           // circuits that the relay did not make
	LinksClosed, CircuitsClosed int           // by the relay
	Active                      Active        // with circuits that move bytes
}

// Report has C tor's relay and Chive's, in this order.
type Report struct {
	Links, Circuits int
	Idle            time.Duration
	Active          ActivePlan
	Relays          []Measured
	Parts           []Part // the other loads
}

// line is one line of the table: what is measured, and how.
type line struct {
	what string
	of   func(*Measured) float64
}

// rows are the lines of the table.
func (r *Report) rows() []line {
	perLink := func(m *Measured) float64 { return float64(m.WithLinks.RSS-m.Base.RSS) / float64(r.Links) / 1000 }
	perCircuit := func(m *Measured) float64 {
		return float64(m.Whole.RSS-m.WithLinks.RSS) / float64(max(1, r.Circuits)) / 1000
	}
	return []line{
		{"RSS before, MB", func(m *Measured) float64 { return float64(m.Base.RSS) / 1e6 }},
		{"a link's memory, kB", perLink},
		{"a circuit's memory, kB", perCircuit},
		{"RSS with all, MB", func(m *Measured) float64 { return float64(m.Whole.RSS) / 1e6 }},
		{"the most, MB", func(m *Measured) float64 { return float64(m.Whole.Peak) / 1e6 }},
		{"RSS after, MB", func(m *Measured) float64 { return float64(m.After.RSS) / 1e6 }},
		{"a link's handshakes, ms of a processor", func(m *Measured) float64 { return float64(m.LinkCPU) / 1e6 }},
		{"idle with links, ms/s", func(m *Measured) float64 { return m.WithLinks.CPU }},
		{"idle with all, ms/s", func(m *Measured) float64 { return m.Whole.CPU }},
		{"circuits refused", func(m *Measured) float64 { return float64(m.Refused) }},
		{"links closed by the relay", func(m *Measured) float64 { return float64(m.LinksClosed) }},
		{"circuits closed by the relay", func(m *Measured) float64 { return float64(m.CircuitsClosed) }},
	}
}

// WriteTable writes a line for each figure: C tor's, Chive's, and the ratio of these two.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%d links, %d circuits", r.Links, r.Circuits)
	for _, m := range r.Relays {
		fmt.Fprintf(t, "\t%s", m.Name)
	}
	fmt.Fprint(t, "\tratio\n")
	for _, row := range append(r.rows(), r.activeRows()...) {
		fmt.Fprint(t, row.what)
		for i := range r.Relays {
			fmt.Fprintf(t, "\t%.4g", row.of(&r.Relays[i]))
		}
		if len(r.Relays) == 2 && row.of(&r.Relays[0]) > 0 {
			fmt.Fprintf(t, "\t%.2f", row.of(&r.Relays[1])/row.of(&r.Relays[0]))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	for i := range r.Parts {
		fmt.Fprintln(w)
		if err := r.Parts[i].writeTable(w); err != nil {
			return err
		}
	}
	return nil
}
