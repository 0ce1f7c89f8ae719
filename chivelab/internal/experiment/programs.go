package experiment

import (
	"cmp"
	"slices"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
)

// Programs of nodes.
const (
	ProgramChive = "chive"
	ProgramTor   = "tor" // C tor
)

var programs = []string{ProgramChive, ProgramTor}

func checkProgram(name string) error {
	if !slices.Contains(programs, name) {
		return fault.New(fault.Config, "program: %w", options.NotOneOf(name, programs))
	}
	return nil
}

// runs returns the program of a node.
func (f *File) runs(n *Node) string { return cmp.Or(n.Program, f.Program) }

// HasTor reports whether any node is C tor's: then all nodes are in namespaces, and authorities and what a network needs beside
// are C tor's.
func (f *File) HasTor() bool { return f.Program == ProgramTor || f.any(ProgramTor) }

// Mixed reports whether nodes are of two programs.
func (f *File) Mixed() bool { return f.HasTor() && f.any(ProgramChive) }

// any reports whether any authority, relay or exit is of a program.
func (f *File) any(program string) bool {
	return slices.ContainsFunc(f.Nodes, func(n Node) bool { return n.Role != RoleClient && f.runs(&n) == program })
}

// byTor reports whether a relay of the path is C tor's.
func (f *File) byTor() bool {
	return slices.ContainsFunc(f.Path, func(name string) bool {
		n := f.node(name)
		return n != nil && f.runs(n) == ProgramTor
	})
}

// checkPrograms reports what does not fit together.
func (f *File) checkPrograms() (where, error) {
	for i := range f.Nodes {
		switch n := &f.Nodes[i]; {
		case n.Role == RoleClient && n.Program != "":
			return where{"node", i, "program"}, fault.New(fault.Config, "node %q: who measures is always this program", n.Name)
		case n.Role == RoleAuthority && f.HasTor() && f.runs(n) != ProgramTor:
			at := where{"node", i, "program"}
			if n.Program == "" {
				at.sub = "role"
			}
			return at, fault.New(fault.Config, "node %q: where any node is C tor's, authorities must be, too: give it program = %q", n.Name, ProgramTor)
		}
	}
	return where{}, nil
}
