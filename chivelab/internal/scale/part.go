package scale

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/chivenet/chive/internal/fault"
)

// Part is what one load beside the links and circuits came to.
type Part struct {
	Title   string
	Names   []string // "C tor", "Chive"
	Figures []Figure
	Wrong   []string // what Chive did not do though it should have: closed, lost or refused something honest
}

// Figure is a line of a part's table: a value for each of the names.
type Figure struct {
	What   string
	Values []float64
}

// figures gathers what one node did.
type figures struct {
	name  string
	lines []Figure
	wrong []string
}

func (f *figures) add(what string, v float64) {
	f.lines = append(f.lines, Figure{What: what, Values: []float64{v}})
}

// must notes a count, and that it is wrong if it is not the one that is wanted.
func (f *figures) must(what string, got, want int) {
	f.add(what, float64(got))
	if got != want {
		f.wrong = append(f.wrong, fmt.Sprintf("%s: %s: %d, not %d", f.name, what, got, want))
	}
}

// join makes a part of what several nodes did, who all have the same lines. What another program than Chive does is no mistake.
func join(title string, all ...*figures) Part {
	p := Part{Title: title}
	for i, f := range all {
		p.Names = append(p.Names, f.name)
		if f.name == chiveName {
			p.Wrong = append(p.Wrong, f.wrong...)
		}
		for j, l := range f.lines {
			if i == 0 {
				p.Figures = append(p.Figures, Figure{What: l.What})
			}
			p.Figures[j].Values = append(p.Figures[j].Values, l.Values...)
		}
	}
	return p
}

// writeTable writes a line for each figure, and the ratio of two.
func (p *Part) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, p.Title)
	for _, n := range p.Names {
		fmt.Fprintf(t, "\t%s", n)
	}
	if len(p.Names) == 2 {
		fmt.Fprint(t, "\tratio")
	}
	fmt.Fprintln(t)
	for _, f := range p.Figures {
		fmt.Fprint(t, f.What)
		for _, v := range f.Values {
			fmt.Fprintf(t, "\t%.4g", v)
		}
		if len(f.Values) == 2 && f.Values[0] > 0 {
			fmt.Fprintf(t, "\t%.2f", f.Values[1]/f.Values[0])
		}
		fmt.Fprintln(t)
	}
	return fault.Wrap(fault.Local, t.Flush())
}

// Err is an error if Chive closed, lost or refused something that an honest peer opened, sent or asked for. It looks at
// counts only: times and sizes are the reader's to judge.
func (r *Report) Err() error {
	var wrong []string
	for i := range r.Relays {
		m := &r.Relays[i]
		if m.Name != chiveName {
			continue
		}
		f := figures{name: m.Name}
		f.must("circuits refused", m.Refused, 0)
		f.must("links closed by the relay", m.LinksClosed, 0)
		f.must("circuits closed by the relay", m.CircuitsClosed, 0)
		wrong = append(wrong, f.wrong...)
	}
	for _, p := range r.Parts {
		wrong = append(wrong, p.Wrong...)
	}
	if len(wrong) > 0 {
		return fault.New(fault.Resource, "honest peers did not get what is theirs: %q", wrong)
	}
	return nil
}
