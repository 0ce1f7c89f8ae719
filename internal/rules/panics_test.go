package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// panicsPath is the package with which production code starts goroutines and
// timers.
const panicsPath = module + "/internal/panics"

// uncontained are the functions that may start a goroutine or timer without it,
// with the reason.
var uncontained = map[string]string{}

// recovers are the files that may call recover.
var recovers = map[string]string{
	"internal/panics/panics.go": "it is what this test is about",
	"fte/lang/parse.go":         "a parser that stops by a panic with its own error, and lets others through",
}

// httpServers are the files that may make an HTTP server. Its goroutines would
// swallow a panic without counting it.
var httpServers = map[string]string{
	"internal/localhttp/server.go": "guarded begins with panics.Recover",
	"internal/site/server.go":      "serve begins with panics.Recover",
	"internal/cli/fte_run.go":      "fte.HTTPServer begins with panics.Recover",
}

// TestContained checks that every goroutine and timer of production code uses
// internal/panics: it runs the result of panics.Contain or panics.Keep, or a
// function literal that begins with panics.Recover.
func TestContained(t *testing.T) {
	used := map[string]bool{}
	for _, p := range listed(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if l, _ := levelOf(t, p.ImportPath); l == support || measures(rel) {
			continue // tests and measurements should end after a panic
		}
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go")) // whatever the platform
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.ToSlash(filepath.Join(rel, filepath.Base(name)))
			for _, l := range launches(f) {
				place := file + " " + l.in
				if uncontained[place] != "" {
					used[place] = true
					continue
				}
				t.Errorf("%s:%d: %s: start it by panics.Contain, or begin it with panics.Recover", file, fset.Position(l.pos).Line, l.what)
			}
			for what, allowed := range map[string]map[string]string{"recover()": recovers, "http.Server": httpServers} {
				if mentions(f, what) && allowed[file] == "" {
					t.Errorf("%s: %s in a file that is not known for it", file, what)
				}
			}
		}
	}
	for place := range uncontained {
		if !used[place] {
			t.Errorf("%s has nothing uncontained any more: take it off the list", place)
		}
	}
}

// launch is a place that starts a goroutine or timer without internal/panics.
type launch struct {
	pos      token.Pos
	in, what string
}

// launches lists a file's uncontained goroutines and timers.
func launches(f *ast.File) []launch {
	var found []launch
	for _, d := range f.Decls {
		in := "a variable"
		if fn, ok := d.(*ast.FuncDecl); ok {
			in = fn.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if !contained(n.Call.Fun) {
					found = append(found, launch{n.Pos(), in, "go statement"})
				}
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || len(n.Args) == 0 {
					break
				}
				if name := sel.Sel.Name; (name == "Go" || name == "AfterFunc") && !contained(n.Args[len(n.Args)-1]) {
					found = append(found, launch{n.Pos(), in, "call of " + name})
				}
			}
			return true
		})
	}
	return found
}

// contained reports whether a started function contains its panics: it is the
// result of panics.Contain or panics.Keep, or a literal whose first statement
// defers panics.Recover.
func contained(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.CallExpr:
		return isPanics(f.Fun, "Contain") || isPanics(f.Fun, "Keep")
	case *ast.FuncLit:
		if len(f.Body.List) > 0 {
			d, ok := f.Body.List[0].(*ast.DeferStmt)
			return ok && isPanics(d.Call.Fun, "Recover")
		}
	}
	return false
}

func isPanics(f ast.Expr, name string) bool {
	sel, ok := f.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == filepath.Base(panicsPath) && sel.Sel.Name == name
}

// mentions reports whether a file calls recover, or makes an http.Server.
func mentions(f *ast.File, what string) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name+"()" == what {
				found = true
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name+"."+n.Sel.Name == what {
				found = true
			}
		}
		return true
	})
	return found
}

// TestLaunches shows that the check can fail.
func TestLaunches(t *testing.T) {
	const src = `package p
func f() {
	go f()
	go func() { defer panics.Recover(nil, nil); f() }()
	go func() { f(); defer panics.Recover(nil, nil) }()
	go panics.Contain(nil, nil, f)(); go panics.Keep(nil, nil, f)()
	wg.Go(f)
	wg.Go(panics.Contain(nil, nil, f))
	defer context.AfterFunc(ctx, func() { c.Close() })()
	context.AfterFunc(ctx, panics.Contain(nil, nil, func() { c.Close() }))
	time.AfterFunc(1, func() {})
	recover()
	_ = http.Server{}
}`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range launches(f) {
		got = append(got, fmt.Sprintf("%d %s %s", fset.Position(l.pos).Line, l.in, l.what))
	}
	want := []string{"3 f go statement", "5 f go statement", "7 f call of Go", "9 f call of AfterFunc", "11 f call of AfterFunc"}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if !mentions(f, "recover()") || !mentions(f, "http.Server") || mentions(f, "panic()") {
		t.Fatal("recover and http.Server are not seen")
	}
}
