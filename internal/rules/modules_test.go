package rules

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestModules: who imports Chive gets neither the laboratory nor what only it needs.
func TestModules(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, only := range []string{module + "/chivelab", "fpdf", "go-chart", "freetype", "golang.org/x/image"} {
		if strings.Contains(string(mod), only) {
			t.Errorf("go.mod names %s: only the laboratory, chivelab/, needs it", only)
		}
	}
	for _, of := range []string{"go.mod", "chivelab/go.mod", "devp2p/go.mod"} {
		text, err := os.ReadFile(of)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "libp2p") {
			t.Errorf("%s names libp2p: only libp2p/ needs it", of)
		}
	}
	lab, err := os.ReadFile("chivelab/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(lab), "fpdf") {
		t.Error("chivelab/go.mod has no library for figures: this test looks for the wrong names")
	}
	for _, p := range listed(t) {
		if strings.HasPrefix(p.ImportPath, module+"/chivelab") {
			continue
		}
		for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for _, path := range imports {
				if strings.HasPrefix(path, module+"/chivelab") {
					t.Errorf("%s imports %s, of another module", p.ImportPath, path)
				}
			}
		}
	}
}

// TestOnlyPublic: the modules that carry other programs' protocols live from the public packages alone, in their
// tests too, so that they show what others can build. What they lack, others lack.
func TestOnlyPublic(t *testing.T) {
	for dir, allowed := range map[string]string{
		"devp2p": module + "/chivelab/plot", // draws the figures of its measurements
		"libp2p": "",
	} {
		public, theirs := 0, module+"/"+dir
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, i := range f.Imports {
				of, err := strconv.Unquote(i.Path.Value)
				switch {
				case err != nil:
					return err
				case of != module && !strings.HasPrefix(of, module+"/"), of == theirs, strings.HasPrefix(of, theirs+"/"), of == allowed:
				case strings.Contains(of+"/", "/internal/"), strings.HasPrefix(of, module+"/chivelab"), strings.HasPrefix(of, module+"/devp2p"), strings.HasPrefix(of, module+"/libp2p"):
					t.Errorf("%s imports %s, which is not public", path, of)
				default:
					public++
				}
			}
			return nil
		})
		if err != nil || public == 0 {
			t.Errorf("%v: %s/ imports %d public packages", err, dir, public)
		}
	}
}

// TestNoTesting: package testing is in no program.
func TestNoTesting(t *testing.T) {
	seen := 0
	for _, p := range listed(t) {
		level, _ := levelOf(t, p.ImportPath)
		helps := level == support || strings.HasSuffix(p.ImportPath, "/labtest") || strings.HasSuffix(p.ImportPath, "/ctortest") // helpers of tests
		if !slices.Contains(p.Imports, "testing") {
			continue
		}
		seen++
		if !helps {
			t.Errorf("%s imports testing outside its tests", p.ImportPath)
		}
	}
	if seen == 0 {
		t.Error("no helper of tests imports testing: this test sees nothing")
	}
}
