package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// harmless are the functions and methods, by their last name, that may be called
// between a Lock and an Unlock that is not deferred, because they cannot panic
// there.
var harmless = strings.Fields(`append cap close copy delete len make max min new byte int int64 uint64 string
	fault.New Add Load Store Swap Now time.Now Before After Sub IsZero Equal Signal Broadcast Wait
	WithCancel WithTimeout context.Background cancel`)

// shortLocks are the sections that may call other functions, with the reason why
// these do not panic, or what is lost if they do.
var shortLocks = map[string]string{
	"internal/authority/publish.go fetchSignatures": "a comparison of lengths",
	"internal/circuit/circuit.go Close":             "takeWaiters takes a list",
	"internal/exit/exit.go lookup":                  "share is arithmetic",
	"internal/pool/acquire.go Acquire":              "a comparison of pointers",
	"internal/relay/bandwidthfile.go save":          "a struct of numbers and dates as JSON",
}

// TestLocksAreFreed: code that panics must not keep a lock that is needed to
// close what it owns. Code that can panic runs only under locks with deferred
// unlocks.
func TestLocksAreFreed(t *testing.T) {
	used := map[string]bool{}
	for _, p := range listed(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if l, _ := levelOf(t, p.ImportPath); l == support || measures(rel) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
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
			for _, l := range locked(f) {
				place := filepath.ToSlash(filepath.Join(rel, filepath.Base(name))) + " " + l.in
				used[place] = true
				if shortLocks[place] == "" {
					t.Errorf("%s:%d: %s under a lock: defer its unlock", place, fset.Position(l.pos).Line, l.what)
				}
			}
		}
	}
	for place := range shortLocks {
		if !used[place] {
			t.Errorf("%s calls nothing any more: take it off the list", place)
		}
	}
}

// locked lists what a file calls between a Lock and the Unlock after it in the
// same block, or the block's end, when that is not deferred.
func locked(f *ast.File) []launch {
	var found []launch
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			var list []ast.Stmt
			switch n := n.(type) {
			case *ast.BlockStmt:
				list = n.List
			case *ast.CaseClause:
				list = n.Body
			case *ast.CommClause:
				list = n.Body
			}
			for i, s := range list {
				if mu := mutex(s, "Lock"); mu != "" {
					for _, what := range calls(mu, list[i+1:]) {
						found = append(found, launch{s.Pos(), fn.Name.Name, what})
					}
				}
			}
			return true
		})
	}
	return found
}

// calls lists the calls under mu in the statements after its Lock.
func calls(mu string, after []ast.Stmt) (found []string) {
	for i, s := range after {
		if d, ok := s.(*ast.DeferStmt); ok && i == 0 && types.ExprString(d.Call.Fun) == mu+".Unlock" {
			return nil
		}
		if mutex(s, "Unlock") == mu {
			return found
		}
		ast.Inspect(s, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false // it runs later
			case *ast.BlockStmt:
				found = append(found, calls(mu, n.List)...)
				return false
			case *ast.CaseClause:
				found = append(found, calls(mu, n.Body)...)
				return false
			case *ast.CommClause:
				found = append(found, calls(mu, n.Body)...)
				return false
			case *ast.CallExpr:
				name := types.ExprString(n.Fun)
				last := name[strings.LastIndex(name, ".")+1:]
				if !slices.Contains(harmless, name) && !slices.Contains(harmless, last) {
					found = append(found, name)
				}
			}
			return true
		})
	}
	return found
}

// mutex returns what a statement locks or unlocks.
func mutex(s ast.Stmt, method string) string {
	if e, ok := s.(*ast.ExprStmt); ok {
		if c, ok := e.X.(*ast.CallExpr); ok {
			if sel, ok := c.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == method {
				return types.ExprString(sel.X)
			}
		}
	}
	return ""
}

// TestLocked shows that the check can fail.
func TestLocked(t *testing.T) {
	const src = `package p
func f() {
	a.mu.Lock()
	defer a.mu.Unlock()
	g()
}
func h() {
	a.mu.Lock()
	n := len(x)
	a.mu.Unlock()
	g(n)
	if n > 0 {
		b.mu.Lock()
		if n > 1 { b.mu.Unlock(); c.g(); return }
		c.g()
		b.mu.Unlock()
	}
}`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range locked(f) {
		got = append(got, fmt.Sprintf("%d %s %s", fset.Position(l.pos).Line, l.in, l.what))
	}
	if want := []string{"13 h c.g"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}
