package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// lockWalk reads one function.
type lockWalk struct {
	g     *lockGraph
	info  *types.Info
	f     *lockFunc
	outer *lockWalk                // of a literal: the function around it
	lits  map[*types.Var]*lockFunc // variables that are a function literal
}

func (g *lockGraph) read(info *types.Info, name string, sig *types.Signature, body *ast.BlockStmt, outer *lockWalk) *lockFunc {
	f := &lockFunc{name: name, takes: map[string]string{}, params: map[*types.Var]int{}, runs: map[int]map[string]struct{}{}}
	w := &lockWalk{g: g, info: info, f: f, outer: outer, lits: map[*types.Var]*lockFunc{}}
	for i := range sig.Params().Len() {
		if p := sig.Params().At(i); isFunc(p.Type()) {
			f.params[p] = i
		}
	}
	held, ended := w.stmts(body.List, nil)
	if !ended {
		f.leaves = append(f.leaves, held...)
	}
	return f
}

func isFunc(t types.Type) bool {
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

// stmts walks statements with what is held before them; ended says that they return. A mutex
// whose unlock is deferred has a mark, and stays until the end.
func (w *lockWalk) stmts(list []ast.Stmt, held []string) (after []string, ended bool) {
	for _, s := range list {
		if held, ended = w.stmt(s, held); ended {
			return held, true
		}
	}
	return held, false
}

func (w *lockWalk) stmt(s ast.Stmt, held []string) (after []string, ended bool) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		return w.stmts(s.List, held)
	case *ast.LabeledStmt:
		return w.stmt(s.Stmt, held)
	case *ast.ExprStmt:
		if mu, op := w.mutex(s.X); op != "" {
			return w.apply(mu, op, s.Pos(), held), false
		}
		w.expr(s.X, held)
		if c, ok := s.X.(*ast.CallExpr); ok {
			if id, ok := c.Fun.(*ast.Ident); ok && id.Name == "panic" {
				return held, true
			}
		}
	case *ast.DeferStmt:
		if mu, op := w.mutex(s.Call); op == "Unlock" || op == "RUnlock" {
			i := slices.Index(held, mu)
			if i >= 0 {
				held = slices.Clone(held)
				held[i] = "defer " + mu
			}
			return held, false
		}
		w.expr(s.Call, held) // before what was deferred earlier, such as the unlock
	case *ast.GoStmt:
		w.apart(s.Call, held)
	case *ast.AssignStmt:
		for i, x := range s.Rhs {
			if lit, ok := x.(*ast.FuncLit); ok && len(s.Lhs) == len(s.Rhs) {
				if id, ok := s.Lhs[i].(*ast.Ident); ok {
					if v, ok := w.object(id).(*types.Var); ok {
						w.lits[v] = w.literal(lit)
						continue
					}
				}
			}
			w.expr(x, held)
		}
		for i, x := range s.Lhs {
			w.expr(x, held)
			if len(s.Lhs) == len(s.Rhs) {
				w.assigned(x, s.Rhs[i])
			}
		}
	case *ast.ReturnStmt:
		for _, x := range s.Results {
			w.expr(x, held)
		}
		w.f.leaves = append(w.f.leaves, held...)
		return held, true
	case *ast.BranchStmt:
		return held, s.Tok != token.FALLTHROUGH
	case *ast.IfStmt:
		if s.Init != nil {
			held, _ = w.stmt(s.Init, held)
		}
		w.expr(s.Cond, held)
		one, ended := w.stmts(s.Body.List, held)
		other, otherEnded := held, false
		if s.Else != nil {
			other, otherEnded = w.stmt(s.Else, held)
		}
		return join([]way{{one, ended}, {other, otherEnded}})
	case *ast.ForStmt:
		if s.Init != nil {
			held, _ = w.stmt(s.Init, held)
		}
		if s.Cond != nil {
			w.expr(s.Cond, held)
		}
		in, _ := w.stmts(s.Body.List, held)
		if s.Post != nil {
			w.stmt(s.Post, in)
		}
		return union(held, in), false
	case *ast.RangeStmt:
		w.expr(s.X, held)
		in, _ := w.stmts(s.Body.List, held)
		return union(held, in), false
	case *ast.SwitchStmt:
		if s.Init != nil {
			held, _ = w.stmt(s.Init, held)
		}
		if s.Tag != nil {
			w.expr(s.Tag, held)
		}
		return w.clauses(s.Body.List, held)
	case *ast.TypeSwitchStmt:
		if s.Init != nil {
			held, _ = w.stmt(s.Init, held)
		}
		w.stmt(s.Assign, held)
		return w.clauses(s.Body.List, held)
	case *ast.SelectStmt:
		return w.clauses(s.Body.List, held)
	case *ast.SendStmt:
		w.expr(s.Chan, held)
		w.expr(s.Value, held)
	case *ast.IncDecStmt:
		w.expr(s.X, held)
	case *ast.DeclStmt:
		ast.Inspect(s, func(n ast.Node) bool {
			if x, ok := n.(ast.Expr); ok {
				w.expr(x, held)
				return false
			}
			return true
		})
	}
	return held, false
}

// way is one way through a statement.
type way struct {
	held  []string
	ended bool
}

// join is what may be held after several ways.
func join(all []way) ([]string, bool) {
	var held []string
	ended := true
	for _, x := range all {
		if !x.ended {
			held, ended = union(held, x.held), false
		}
	}
	return held, ended
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

func (w *lockWalk) clauses(list []ast.Stmt, held []string) ([]string, bool) {
	all := []way{}
	complete := false
	for _, c := range list {
		switch c := c.(type) {
		case *ast.CaseClause:
			for _, x := range c.List {
				w.expr(x, held)
			}
			complete = complete || c.List == nil
			after, ended := w.stmts(c.Body, held)
			if n := len(c.Body); n > 0 {
				if b, ok := c.Body[n-1].(*ast.BranchStmt); ok && b.Tok == token.BREAK {
					ended = false
				}
			}
			all = append(all, way{after, ended})
		case *ast.CommClause:
			complete = true
			in := held
			if c.Comm != nil {
				in, _ = w.stmt(c.Comm, held)
			}
			after, ended := w.stmts(c.Body, in)
			all = append(all, way{after, ended})
		}
	}
	if !complete {
		all = append(all, way{held, false})
	}
	return join(all)
}

// apply takes or gives back a mutex.
func (w *lockWalk) apply(mu, op string, at token.Pos, held []string) []string {
	switch op {
	case "Lock", "RLock":
		w.f.take(mu, w.g.place(at))
		w.g.edge(held, mu, w.g.place(at))
		return append(slices.Clone(held), mu)
	case "Unlock", "RUnlock":
		held = slices.Clone(held)
		if i := slices.Index(held, mu); i >= 0 {
			held = slices.Delete(held, i, i+1)
		}
	}
	return held
}

func (f *lockFunc) take(mu, at string) bool {
	if _, ok := f.takes[mu]; ok {
		return false
	}
	f.takes[mu] = at
	return true
}

func (g *lockGraph) edge(held []string, mu, at string) {
	for _, h := range held {
		h = strings.TrimPrefix(h, "defer ")
		if g.edges[h] == nil {
			g.edges[h] = map[string]string{}
		}
		if g.edges[h][mu] == "" {
			g.edges[h][mu] = at
		}
	}
}
