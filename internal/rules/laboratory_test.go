package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// laboratoryOnly are functions that look into circuits and nodes, by the last part of their package's name. No program but
// the laboratory may have a way to them.
var laboratoryOnly = map[string]bool{
	"channel.OtherEnd": true, "channel.ReceiverOf": true, "channel.Interpose": true, "circuit.HomeOf": true, "circuit.OnwardOf": true,
	"authority.OfNode": true,
}

// TestLaboratoryOnly: only the laboratory and tests use what is for the laboratory.
func TestLaboratoryOnly(t *testing.T) {
	used := map[string]bool{}
	for _, p := range listed(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := s.X.(*ast.Ident)
				if !ok || !laboratoryOnly[x.Name+"."+s.Sel.Name] {
					return true
				}
				used[x.Name+"."+s.Sel.Name] = true
				if !measures(rel) {
					t.Errorf("%s uses %s.%s, which is for the laboratory", filepath.Join(rel, filepath.Base(name)), x.Name, s.Sel.Name)
				}
				return true
			})
		}
	}
	for name := range laboratoryOnly {
		if !used[name] {
			t.Errorf("nobody uses %s any more", name)
		}
	}
}
