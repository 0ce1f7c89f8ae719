package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lockGraph says which mutexes are taken while another one is held, as far as the source tells:
// see docs/locks.md for what it does not see.
type lockGraph struct {
	fset  *token.FileSet
	funcs map[*types.Func]*lockFunc
	// edges has, by the mutex that is held and the one that is taken, a place in the code.
	edges map[string]map[string]string
	named []types.Type                  // the module's types, for calls of its interfaces
	impls map[*types.Func][]*types.Func // of methods of interfaces: see targets
	// fields has what is assigned to fields of function types.
	fields map[*types.Var][]lockArg
}

// lockFunc is what a function does with locks.
type lockFunc struct {
	name   string
	takes  map[string]string // mutexes that it takes, itself or by what it calls, with a place
	calls  []lockCall
	params map[*types.Var]int          // of function types, with their index
	runs   map[int]map[string]struct{} // by the index of such a parameter that it calls: what it holds then
	leaves []string                    // held when it returns
}

// lockCall is a call of a function while mutexes are held.
type lockCall struct {
	held  []string
	to    *types.Func // one of these three: a function or method, a literal, or what a field has
	lit   *lockFunc
	field *types.Var
	args  map[int]lockArg // those that are functions
	at    string          // the place in the code
}

// lockArg is a function that is an argument of a call.
type lockArg struct {
	to    *types.Func
	lit   *lockFunc
	field *types.Var
	param int // of the caller, from 1
}

func (a lockArg) known() bool { return a.to != nil || a.lit != nil || a.field != nil || a.param > 0 }

// parallel are functions whose function arguments run on other goroutines, or later: by the last
// part of their names.
var parallel = strings.Fields(`Go AfterFunc OnClose Handle HandleFunc GaugeFunc CounterFunc OnceFunc OnceValue OnceValues`)

// buildLockGraph reads packages of the module, given with all that they import.
func buildLockGraph(t *testing.T, paths []string) *lockGraph {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles"}, paths...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	g := newLockGraph()
	ours := map[string]*types.Package{}
	gc := importer.ForCompiler(g.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	imp := importerFunc(func(path string) (*types.Package, error) {
		if p := ours[path]; p != nil {
			return p, nil
		}
		return gc.Import(path)
	})
	var bodies []func()
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; { // what is imported comes first
		var p struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.ImportPath != module && !strings.HasPrefix(p.ImportPath, module+"/") {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(g.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		pkg, read, err := g.check(p.ImportPath, files, imp)
		if err != nil {
			t.Fatal(err)
		}
		ours[p.ImportPath] = pkg
		bodies = append(bodies, read)
	}
	for _, read := range bodies { // when all types are known
		read()
	}
	g.close()
	return g
}

type importerFunc func(string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

func newLockGraph() *lockGraph {
	return &lockGraph{
		fset: token.NewFileSet(), funcs: map[*types.Func]*lockFunc{}, edges: map[string]map[string]string{},
		impls: map[*types.Func][]*types.Func{}, fields: map[*types.Var][]lockArg{},
	}
}

// check finds the types of a package. read reads its functions.
func (g *lockGraph) check(path string, files []*ast.File, imp types.Importer) (pkg *types.Package, read func(), err error) {
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	cfg := types.Config{Importer: imp, Sizes: types.SizesFor("gc", "amd64")}
	if pkg, err = cfg.Check(path, g.fset, files, info); err != nil {
		return nil, nil, err
	}
	for _, name := range pkg.Scope().Names() {
		if n, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && !n.IsAlias() {
			if named, ok := n.Type().(*types.Named); ok && named.TypeParams().Len() == 0 && !types.IsInterface(named) {
				g.named = append(g.named, named, types.NewPointer(named))
			}
		}
	}
	return pkg, func() {
		for _, f := range files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					obj := info.Defs[fn.Name].(*types.Func)
					g.funcs[obj] = g.read(info, g.place(fn.Pos())+" "+fn.Name.Name, obj.Type().(*types.Signature), fn.Body, nil)
				}
			}
		}
	}, nil
}

func (g *lockGraph) place(p token.Pos) string {
	at := g.fset.Position(p)
	file := at.Filename
	if wd, err := os.Getwd(); err == nil {
		file = strings.TrimPrefix(file, wd+"/")
	}
	return fmt.Sprintf("%s:%d", filepath.ToSlash(file), at.Line)
}

// targets returns the functions that a call may reach: of a method of an interface of the module,
// those of all types that have it.
func (g *lockGraph) targets(f *types.Func) []*types.Func {
	recv := f.Signature().Recv()
	if recv == nil || !types.IsInterface(recv.Type()) {
		return []*types.Func{f}
	}
	if out, ok := g.impls[f]; ok {
		return out
	}
	var out []*types.Func
	iface, _ := recv.Type().Underlying().(*types.Interface)
	if n, ok := recv.Type().(*types.Named); ok && iface != nil && n.Obj().Pkg() != nil && (n.Obj().Pkg().Path() == module || strings.HasPrefix(n.Obj().Pkg().Path(), module+"/")) {
		for _, t := range g.named {
			if !types.Implements(t, iface) {
				continue
			}
			if o, _, _ := types.LookupFieldOrMethod(t, true, f.Pkg(), f.Name()); o != nil {
				if m, ok := o.(*types.Func); ok && !slices.Contains(out, m.Origin()) {
					out = append(out, m.Origin())
				}
			}
		}
	}
	g.impls[f] = out
	return out
}

// close follows the calls until nothing new is found.
func (g *lockGraph) close() {
	all := slices.Collect(maps.Values(g.funcs))
	slices.SortFunc(all, func(a, b *lockFunc) int { return strings.Compare(a.name, b.name) })
	for changed := true; changed; {
		changed = false
		for _, f := range all {
			for _, c := range f.calls {
				for _, to := range g.called(c) {
					for mu := range to.takes {
						changed = f.take(mu, c.at+" > "+to.name) || changed
					}
					for i, a := range c.args {
						held, ok := to.runs[i]
						if !ok {
							continue
						}
						for _, run := range g.called(lockCall{to: a.to, lit: a.lit, field: a.field}) {
							for mu := range run.takes {
								changed = f.take(mu, c.at+" > "+to.name+" > "+run.name) || changed
							}
						}
						if a.param == 0 {
							continue
						}
						if f.runs[a.param-1] == nil {
							f.runs[a.param-1], changed = map[string]struct{}{}, true
						}
						for _, h := range slices.Concat(c.held, slices.Collect(maps.Keys(held))) {
							if _, ok := f.runs[a.param-1][h]; !ok {
								f.runs[a.param-1][h], changed = struct{}{}, true
							}
						}
					}
				}
			}
		}
	}
	for _, f := range all {
		for _, c := range f.calls {
			for _, to := range g.called(c) {
				for _, mu := range slices.Sorted(maps.Keys(to.takes)) {
					g.edge(c.held, mu, c.at+" > "+to.name)
				}
				for i, a := range c.args {
					held, ok := to.runs[i]
					if !ok {
						continue
					}
					for _, run := range g.called(lockCall{to: a.to, lit: a.lit, field: a.field}) {
						for _, mu := range slices.Sorted(maps.Keys(run.takes)) {
							g.edge(slices.Concat(c.held, slices.Sorted(maps.Keys(held))), mu, c.at+" > "+to.name+" > "+run.name)
						}
					}
				}
			}
		}
	}
}

func (g *lockGraph) called(c lockCall) (out []*lockFunc) {
	if c.lit != nil {
		return []*lockFunc{c.lit}
	}
	if c.field != nil {
		for _, a := range g.fields[c.field] {
			out = append(out, g.called(lockCall{to: a.to, lit: a.lit, field: a.field})...)
		}
		return out
	}
	if c.to == nil {
		return nil
	}
	for _, f := range g.targets(c.to) {
		if to := g.funcs[f]; to != nil {
			out = append(out, to)
		}
	}
	return out
}
