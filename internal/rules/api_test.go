package rules

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "TestAPI rewrites the files in api/, and TestDesign the table in docs/packages.md")

// public are the packages that other programs import, and their files in api/.
var public = map[string]string{
	"": "chive", "relay": "relay", "authority": "authority", "lab": "lab", "lab/host": "lab-host",
	"fte": "fte", "fte/lang": "fte-lang", "socks": "socks",
	"program": "program", "program/commandline": "program-commandline", "program/programtest": "program-programtest",
}

// TestAPI compares what the public packages export with the files in api/, so
// that a review shows what changes for users; go test ./internal/rules -run TestAPI -update rewrites
// them. No exported declaration may mention a type of an internal package.
func TestAPI(t *testing.T) {
	var paths []string
	for rel := range public {
		paths = append(paths, strings.TrimSuffix(module+"/"+rel, "/"))
	}
	fset := token.NewFileSet()
	packages, imports := exported(t, fset, paths)
	texts, all := map[string]string{}, map[string]*types.Package{}
	for rel, name := range public {
		p := packages[strings.TrimSuffix(module+"/"+rel, "/")]
		checked, err := check(fset, p, imports)
		if err != nil {
			t.Fatal(err)
		}
		text, shown := printAPI(checked)
		for _, s := range shown {
			t.Errorf("%s: %s: the type of an internal package, or one without a public name, shows through", p.ImportPath, s)
		}
		texts[filepath.Join("api", name+".txt")], all[rel] = text, checked
	}
	texts[rootsFile] = printRoots(all)
	for file, text := range texts {
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		committed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range difference(string(committed), text) {
			t.Errorf("%s: %s", file, d)
		}
	}
	if t.Failed() {
		t.Log("if this is meant: go test ./internal/rules -run TestAPI -update and a file in changes/")
	}
}

// TestEveryPublicPackageIsListed: every package of the module that is not internal is in the
// list.
func TestEveryPublicPackageIsListed(t *testing.T) {
	for _, p := range listed(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if strings.Contains("/"+rel+"/", "/internal/") || strings.HasPrefix(rel, "cmd/") || strings.HasPrefix(rel, "interop") || strings.HasPrefix(rel, "chivelab") {
			continue
		}
		if public[rel] == "" {
			t.Errorf("%s is public: list it here, or move it below internal", p.ImportPath)
		}
	}
}

// listedPackage is what this test reads from go list -export.
type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// exported returns the packages by their paths, and an importer that reads the
// compiled forms of what they import.
func exported(t *testing.T, fset *token.FileSet, paths []string) (map[string]listedPackage, types.Importer) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}, paths...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]listedPackage{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
	return all, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(all[path].Export) })
}

// check reads a package's source, which has the names of parameters.
func check(fset *token.FileSet, p listedPackage, imports types.Importer) (*types.Package, error) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, nil)
}

// printAPI returns one line for each exported name, field and method, and the lines
// that mention a type which users cannot name.
func printAPI(p *types.Package) (text string, shown []string) {
	var b strings.Builder
	own := types.RelativeTo(p)
	line := func(t types.Type, format string, args ...any) {
		s := fmt.Sprintf(format, args...)
		fmt.Fprintln(&b, s)
		if hidden(p, t, map[types.Type]bool{}) {
			shown = append(shown, strings.TrimSpace(s))
		}
	}
	for _, name := range p.Scope().Names() { // sorted
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		if c, ok := o.(*types.Const); ok {
			line(c.Type(), "%s = %s", types.ObjectString(o, own), c.Val())
			continue
		}
		named, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !isType || !ok {
			line(o.Type(), "%s", types.ObjectString(o, own))
			continue
		}
		st, ok := named.Underlying().(*types.Struct)
		if !ok {
			line(named.Underlying(), "%s", types.ObjectString(o, own))
		} else {
			fmt.Fprintf(&b, "type %s struct\n", name)
			for i := range st.NumFields() {
				if f := st.Field(i); f.Exported() {
					tag := ""
					if st.Tag(i) != "" {
						tag = " `" + st.Tag(i) + "`"
					}
					line(f.Type(), "    %s %s%s", f.Name(), types.TypeString(f.Type(), own), tag)
				}
			}
		}
		if types.IsInterface(named) {
			continue
		}
		for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
			if m.Obj().Exported() {
				line(m.Type(), "    %s", types.ObjectString(m.Obj(), own))
			}
		}
	}
	return b.String(), shown
}

// hidden reports whether a type mentions one of an internal package, or one of p
// that has no exported name.
func hidden(p *types.Package, t types.Type, seen map[types.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	all := func(tuple *types.Tuple) bool {
		for v := range tuple.Variables() {
			if hidden(p, v.Type(), seen) {
				return true
			}
		}
		return false
	}
	switch t := t.(type) {
	case *types.Alias:
		return hidden(p, types.Unalias(t), seen)
	case *types.Named:
		o := t.Obj()
		if o.Pkg() == nil { // error
			return false
		}
		return strings.Contains(o.Pkg().Path()+"/", module+"/internal/") || strings.Contains(o.Pkg().Path()+"/", "/internal/") && strings.HasPrefix(o.Pkg().Path(), module) ||
			o.Pkg() == p && !o.Exported()
	case interface{ Elem() types.Type }: // pointers, lists, channels; maps have a key, too
		if m, ok := t.(*types.Map); ok && hidden(p, m.Key(), seen) {
			return true
		}
		return hidden(p, t.Elem(), seen)
	case *types.Signature:
		return all(t.Params()) || all(t.Results())
	case *types.Struct:
		for i := range t.NumFields() {
			if f := t.Field(i); f.Exported() && hidden(p, f.Type(), seen) {
				return true
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			if m.Exported() && hidden(p, m.Type(), seen) {
				return true
			}
		}
	}
	return false
}

// difference lists the lines that only one of two texts has, as a review would.
func difference(old, now string) (out []string) {
	count := map[string]int{}
	for l := range strings.Lines(old) {
		count[l]++
	}
	var added []string
	for l := range strings.Lines(now) {
		if count[l]--; count[l] < 0 {
			added = append(added, "+ "+strings.TrimSpace(l))
		}
	}
	for l := range strings.Lines(old) {
		if count[l] > 0 {
			count[l]--
			out = append(out, "- "+strings.TrimSpace(l))
		}
	}
	if out = append(out, added...); out == nil && old != now {
		out = []string{"the lines are in another order"}
	}
	return out
}

// TestHidden shows that the check can fail.
func TestHidden(t *testing.T) {
	const src = `package p
type own struct{ F int }
type Good struct { F []string; own; G func(error) }
type Bad struct { M map[string]*own }
func (Good) Show() (own, error) { panic(0) }
type Alias = own
var V chan<- own
const C = 1 << 3
func F(int, ...Good) {}`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&types.Config{}).Check(module+"/p", fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, shown := printAPI(p)
	want := `type Alias = own
type Bad struct
    M map[string]*own
const C untyped int = 8
func F(int, ...Good)
type Good struct
    F []string
    G func(error)
    func (Good).Show() (own, error)
var V chan<- own
`
	if text != want {
		t.Errorf("got\n%s", text)
	}
	if got := strings.Join(shown, "\n"); got != "type Alias = own\nM map[string]*own\nfunc (Good).Show() (own, error)\nvar V chan<- own" {
		t.Errorf("shown:\n%s", got)
	}
	if d := difference("a\nb\nc\n", "a\nc\nd\n"); strings.Join(d, " ") != "- b + d" {
		t.Errorf("%q", d)
	}
	if d := difference("a\nb\n", "b\na\n"); len(d) != 1 {
		t.Errorf("%q", d)
	}
}
