package rules

import (
	"os"
	"slices"
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
