package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/appearance"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/lab"
)

// pair is the two programs that are compared: C tor, and Chive or C tor once more.
type pair struct {
	tor  string // path of C tor
	self string // path of the chivelab that is Chive
	own  bool
}

func (p *pair) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	f.BoolVar(&p.own, "itself", false, "compare C tor with itself instead")
}

// find makes the paths absolute. Where none was given, C tor is the one in PATH, and Chive this program.
func (p *pair) find() (err error) {
	if p.tor, err = lab.FindTor(p.tor); err != nil {
		return err
	}
	if p.self == "" {
		if p.self, err = child.Self(); err != nil {
			return err
		}
	}
	for _, at := range []*string{&p.tor, &p.self} {
		if *at, err = filepath.Abs(*at); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	return nil
}

// subjects are the two, with names.
func (p *pair) subjects(first, second string) [2]appearance.Subject {
	out := [2]appearance.Subject{{Name: first, Command: []string{p.tor}}, {Name: second, Command: []string{p.self, "tor"}, Chive: true}}
	if p.own {
		out[1] = appearance.Subject{Name: second, Command: []string{p.tor}}
	}
	return out
}
