package main

import (
	"bufio"
	"fmt"
	"go/token"
	"io"
	"strings"
)

// profile says which lines a run of tests has reached, as go test -coverprofile does.
type profile struct {
	blocks map[string][]block // by the file
}

type block struct {
	fromLine, fromColumn, toLine, toColumn int
	reached                                bool
}

// readProfile reads a profile of the package path, whose files are in the directory pkg.
func readProfile(r io.Reader, path, pkg string) (*profile, error) {
	p := &profile{blocks: map[string][]block{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, rest, ok := strings.Cut(strings.TrimPrefix(lines.Text(), path+"/"), ":")
		if !ok || name == "mode" {
			continue
		}
		var b block
		var statements, times int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.fromLine, &b.fromColumn, &b.toLine, &b.toColumn, &statements, &times); err != nil {
			return nil, fmt.Errorf("profile: %q: %w", lines.Text(), err)
		}
		b.reached = times > 0
		p.blocks[pkg+"/"+name] = append(p.blocks[pkg+"/"+name], b)
	}
	if len(p.blocks) == 0 {
		return nil, fmt.Errorf("the profile is empty (%v)", lines.Err())
	}
	return p, lines.Err()
}

// reaches reports whether the tests have reached a place, or may have: not all places are in the profile.
func (p *profile) reaches(file string, at token.Position) bool {
	known := false
	for _, b := range p.blocks[file] {
		if (b.fromLine < at.Line || b.fromLine == at.Line && b.fromColumn <= at.Column) &&
			(at.Line < b.toLine || at.Line == b.toLine && at.Column < b.toColumn) {
			if known = true; b.reached {
				return true
			}
		}
	}
	return !known
}
