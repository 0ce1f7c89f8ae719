package main

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one mistake that could be in a file.
type mutant struct {
	file       string // below the repository
	start, end int    // bytes of the file, in whose place comes with
	with       string
	node       ast.Node  // what changes: a statement, the "if", the operation or the number
	from       token.Pos // of start

	key
}

// key names a mutant so that the name outlives changes elsewhere in the file.
type key struct {
	pkg  string // its directory below the repository
	fn   string // the function or method, such as "(*Hop).Rekey"
	kind string
	line string // the text of the line that changes
}

func (k key) String() string { return k.pkg + "\t" + k.fn + "\t" + k.kind + "\t" + k.line }

// The kinds of mistakes.
const (
	negated   = "condition negated"
	swapped   = "and/or swapped"
	compared  = "comparison off by one"
	offByOne  = "number off by one"
	removed   = "statement removed"
	undefered = "defer removed"
	noError   = "error becomes nil"
	noReturn  = "return removed"
)

// linux is the system whose files count, so that the list is the same everywhere.
var linux = func() build.Context {
	c := build.Default
	c.GOOS, c.GOARCH, c.CgoEnabled = "linux", "amd64", false
	return c
}()

// mutantsOf returns all mistakes that are tried in a package's files that every build on Linux has, in
// the order of the files and of what stands in them.
func mutantsOf(root, pkg string) ([]mutant, error) {
	return findIn(token.NewFileSet(), root, pkg, map[string]*ast.File{})
}

// findIn does so, and leaves the files that it has read in parsed.
func findIn(set *token.FileSet, root, pkg string, parsed map[string]*ast.File) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") {
			continue
		}
		if ok, err := linux.MatchFile(filepath.Dir(name), base); err != nil || !ok {
			if err != nil {
				return nil, err
			}
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, f, err := mutantsIn(set, pkg, pkg+"/"+base, text)
		if err != nil {
			return nil, err
		}
		all, parsed[pkg+"/"+base] = append(all, found...), f
	}
	return all, nil
}

// mutantsIn returns the mistakes in one file.
func mutantsIn(set *token.FileSet, pkg, file string, text []byte) (all []mutant, f *ast.File, err error) {
	f, err = parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	lines := strings.Split(string(text), "\n")
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		v := finder{set: set, text: text, fallible: fallible(fn.Type)}
		v.add = func(n ast.Node, from, to token.Pos, with, kind string) {
			p := set.Position(from)
			all = append(all, mutant{file: file, start: p.Offset, end: set.Position(to).Offset, with: with, node: n, from: from,
				key: key{pkg, nameOf(fn), kind, strings.TrimSpace(lines[p.Line-1])}})
		}
		v.block(fn.Body.List)
	}
	slices.SortStableFunc(all, func(a, b mutant) int { return a.start - b.start })
	return all, f, nil
}

// nameOf returns a function's name with its receiver.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	t, star := fn.Recv.List[0].Type, ""
	if s, ok := t.(*ast.StarExpr); ok {
		t, star = s.X, "*"
	}
	switch g := t.(type) {
	case *ast.IndexExpr:
		t = g.X
	case *ast.IndexListExpr:
		t = g.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return "(" + star + id.Name + ")." + fn.Name.Name
	}
	return fn.Name.Name
}

// fallible reports whether the last result of a function is an error.
func fallible(t *ast.FuncType) bool {
	if t.Results == nil || len(t.Results.List) == 0 {
		return false
	}
	last, ok := t.Results.List[len(t.Results.List)-1].Type.(*ast.Ident)
	return ok && last.Name == "error"
}

// finder finds mistakes in one function.
type finder struct {
	set      *token.FileSet
	text     []byte
	fallible bool
	add      func(n ast.Node, from, to token.Pos, with, kind string)
}

func (v *finder) source(n ast.Node) string {
	return string(v.text[v.set.Position(n.Pos()).Offset:v.set.Position(n.End()).Offset])
}

// block finds mistakes in statements.
func (v *finder) block(list []ast.Stmt) {
	for _, s := range list {
		v.statement(s)
		ast.Inspect(s, v.inspect)
	}
}

// inspect looks at what is inside a statement.
func (v *finder) inspect(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		inner := *v
		inner.fallible = fallible(n.Type)
		inner.block(n.Body.List)
		return false
	case *ast.BlockStmt:
		for _, s := range n.List {
			v.statement(s)
		}
	case *ast.CaseClause:
		for _, s := range n.Body {
			v.statement(s)
		}
	case *ast.CommClause:
		for _, s := range n.Body {
			v.statement(s)
		}
	case *ast.IfStmt:
		v.add(n, n.Cond.Pos(), n.Cond.End(), "!("+v.source(n.Cond)+")", negated)
	case *ast.BinaryExpr:
		v.binary(n)
	}
	return true
}

var (
	off  = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	swap = map[token.Token]string{token.LAND: "||", token.LOR: "&&"}
)

func (v *finder) binary(n *ast.BinaryExpr) {
	end := func() token.Pos { return n.OpPos + token.Pos(len(n.Op.String())) }
	if with := off[n.Op]; with != "" {
		v.add(n, n.OpPos, end(), with, compared)
	}
	if with := swap[n.Op]; with != "" {
		v.add(n, n.OpPos, end(), with, swapped)
	}
	for _, x := range []ast.Expr{n.X, n.Y} {
		if lit, ok := x.(*ast.BasicLit); ok && lit.Kind == token.INT {
			if i, err := strconv.ParseInt(lit.Value, 0, 32); err == nil && i != 0 {
				v.add(lit, lit.Pos(), lit.End(), strconv.FormatInt(i+1, 10), offByOne)
			}
		}
	}
}

// statement tries what happens without a statement.
func (v *finder) statement(s ast.Stmt) {
	remove := func(kind string) { v.add(s, s.Pos(), s.End(), "{}", kind) }
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt:
		remove(removed)
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE && v.source(s.Lhs[0]) != "_" {
			remove(removed)
		}
	case *ast.DeferStmt:
		remove(undefered)
	case *ast.ReturnStmt:
		if len(s.Results) == 0 {
			remove(noReturn)
		} else if last := s.Results[len(s.Results)-1]; v.fallible && v.source(last) != "nil" && (len(s.Results) > 1 || !isCall(last) || isError(v.source(last))) {
			v.add(s, last.Pos(), last.End(), "nil", noError)
		}
	}
}

func isCall(x ast.Expr) bool { _, ok := x.(*ast.CallExpr); return ok }

// isError reports whether a call makes an error and does nothing else.
func isError(source string) bool {
	return strings.HasPrefix(source, "fault.") || strings.HasPrefix(source, "errors.") || strings.HasPrefix(source, "fmt.Errorf")
}
