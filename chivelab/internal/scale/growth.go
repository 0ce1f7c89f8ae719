package scale

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/chivenet/chive/internal/fault"
)

// circuitsPerLink is how many circuits a link has while a relay grows: the public network's share.
const circuitsPerLink = 16

// Sizes are those at which growth is measured.
type Sizes struct {
	Links  []int // each with its circuits
	Relays []int // of the made-up network
}

// DefaultSizes reach from a small network to twice the public one.
func DefaultSizes() Sizes {
	return Sizes{Links: []int{100, 1000, 3000, 6000}, Relays: []int{1000, 3000, 9000, 20_000}}
}

// Growth is what every size costs.
type Growth struct {
	Links, Relays []*Report // one for each size
	Sizes         Sizes
}

// Grow measures one size after the other: a relay with more and more links, and then a cache and an authority with a
// network of more and more relays. The plan says the rest. Each size has new processes. A size of 0 is left out.
func Grow(ctx context.Context, p Plan, sizes Sizes) (*Growth, error) {
	p.Onions, p.Hostile, p.Relays, p.Active.Circuits = 0, 0, 0, 0
	none := func(n int) bool { return n == 0 }
	sizes.Links, sizes.Relays = slices.DeleteFunc(slices.Clone(sizes.Links), none), slices.DeleteFunc(slices.Clone(sizes.Relays), none)
	if len(sizes.Links) == 0 && len(sizes.Relays) == 0 {
		return nil, fault.New(fault.Config, "no size is given")
	}
	g := &Growth{Sizes: sizes}
	small := p
	small.Links, small.Circuits = perAddress, 0
	for _, n := range sizes.Relays {
		small.Relays = max(small.Relays, n)
	}
	all := []Plan{small}
	for _, n := range sizes.Links {
		one := p
		one.Links, one.Circuits = n, circuitsPerLink*n
		all = append(all, one)
	}
	for i := range all {
		if err := all[i].Check(); err != nil {
			return nil, err
		}
	}
	for _, one := range all[1:] {
		r, err := run(ctx, one, nil)
		if err != nil {
			return nil, err
		}
		g.Links = append(g.Links, r)
	}
	made, err := small.make(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range sizes.Relays {
		part, err := made.First(n)
		if err != nil {
			return nil, err
		}
		small.Relays = n
		r, err := run(ctx, small, part)
		if err != nil {
			return nil, err
		}
		g.Relays = append(g.Relays, r)
	}
	return g, nil
}

// Err is an error if Chive lost something at one of the sizes.
func (g *Growth) Err() error {
	for _, r := range slices.Concat(g.Links, g.Relays) {
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}

// WriteTable writes a line for each program and figure, with a column for each size.
func (g *Growth) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(g.Links) > 0 {
		head(t, "links, with 16 circuits each", g.Sizes.Links)
		for _, row := range g.Links[0].rows() {
			for m := range g.Links[0].Relays {
				fmt.Fprintf(t, "%s: %s", g.Links[0].Relays[m].Name, row.what)
				for _, r := range g.Links {
					i := slices.IndexFunc(r.rows(), func(o line) bool { return o.what == row.what })
					fmt.Fprintf(t, "\t%.4g", r.rows()[i].of(&r.Relays[m]))
				}
				fmt.Fprintln(t)
			}
		}
	}
	if len(g.Relays) > 0 {
		if len(g.Links) > 0 {
			fmt.Fprintln(t)
		}
		head(t, "relays of the network", g.Sizes.Relays)
		for i, part := range g.Relays[0].Parts {
			role, _, _ := strings.Cut(part.Title, ":")
			for j, f := range part.Figures {
				for m, name := range part.Names {
					fmt.Fprintf(t, "%s, %s: %s", role, name, f.What)
					for _, r := range g.Relays {
						fmt.Fprintf(t, "\t%.4g", r.Parts[i].Figures[j].Values[m])
					}
					fmt.Fprintln(t)
				}
			}
		}
	}
	return fault.Wrap(fault.Local, t.Flush())
}

func head(w io.Writer, what string, sizes []int) {
	fmt.Fprint(w, what)
	for _, n := range sizes {
		fmt.Fprintf(w, "\t%d", n)
	}
	fmt.Fprintln(w)
}
