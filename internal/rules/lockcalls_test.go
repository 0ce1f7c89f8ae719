package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// expr finds the calls in an expression.
func (w *lockWalk) expr(x ast.Expr, held []string) {
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit: // it is not called here, as far as is known
			w.literal(n)
			return false
		case *ast.CallExpr:
			w.call(n, held)
			return false
		case *ast.KeyValueExpr:
			w.assigned(n.Key, n.Value)
		}
		return true
	})
}

// assigned notes what a field of a function type gets.
func (w *lockWalk) assigned(to, value ast.Expr) {
	id, ok := to.(*ast.Ident)
	if sel, is := to.(*ast.SelectorExpr); is {
		id, ok = sel.Sel, true
	}
	if !ok {
		return
	}
	v, ok := w.info.Uses[id].(*types.Var)
	if !ok || !v.IsField() || !isFunc(v.Type()) {
		return
	}
	if arg := w.callee(ast.Unparen(value)); arg.known() && arg.param == 0 && arg.field != v {
		w.g.fields[v.Origin()] = append(w.g.fields[v.Origin()], arg)
	}
}

// apart reads a call that another goroutine makes.
func (w *lockWalk) apart(c *ast.CallExpr, held []string) {
	for _, a := range c.Args {
		w.expr(a, held)
	}
	switch f := c.Fun.(type) {
	case *ast.FuncLit:
		w.literal(f)
	case *ast.CallExpr: // panics.Contain(...)()
		for _, a := range f.Args {
			w.expr(a, nil)
		}
	}
}

func (w *lockWalk) call(c *ast.CallExpr, held []string) {
	fun := ast.Unparen(c.Fun)
	if in, ok := fun.(*ast.CallExpr); ok && (isPanics(in.Fun, "Contain") || isPanics(in.Fun, "Keep")) {
		for _, a := range in.Args { // all of them may run here
			if arg, ok := w.arg(a); ok {
				w.run(arg, held, c.Pos())
			} else {
				w.expr(a, held)
			}
		}
		return
	}
	f := w.callee(fun)
	if !f.known() {
		w.expr(c.Fun, held)
	} else if sel, ok := fun.(*ast.SelectorExpr); ok {
		w.expr(sel.X, held)
	}
	call := lockCall{held: clean(held), to: f.to, lit: f.lit, field: f.field, args: map[int]lockArg{}, at: w.g.place(c.Pos())}
	name := ""
	switch fun := fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	for i, a := range c.Args {
		arg, ok := w.arg(a)
		if !ok {
			w.expr(a, held)
			continue
		}
		if slices.Contains(parallel, name) || isPanics(fun, "Contain") || isPanics(fun, "Keep") {
			continue
		}
		call.args[i] = arg
	}
	if f.param > 0 {
		w.runParam(f.param-1, held)
		return
	}
	if to := f.to; to != nil && to.Pkg() != nil && to.Pkg().Path() != module && !strings.HasPrefix(to.Pkg().Path(), module+"/") {
		for _, a := range call.args { // of another module: it calls them now
			w.run(a, held, c.Pos())
		}
		return
	}
	if f.known() {
		w.f.calls = append(w.f.calls, call)
	}
}

func clean(held []string) []string {
	out := make([]string, len(held))
	for i, h := range held {
		out[i] = strings.TrimPrefix(h, "defer ")
	}
	return out
}

// run notes that a function runs while mutexes are held.
func (w *lockWalk) run(a lockArg, held []string, at token.Pos) {
	if a.param > 0 {
		w.runParam(a.param-1, held)
		return
	}
	w.f.calls = append(w.f.calls, lockCall{held: clean(held), to: a.to, lit: a.lit, field: a.field, at: w.g.place(at)})
}

func (w *lockWalk) runParam(i int, held []string) {
	if w.f.runs[i] == nil {
		w.f.runs[i] = map[string]struct{}{}
	}
	for _, h := range clean(held) {
		w.f.runs[i][h] = struct{}{}
	}
}

// arg returns the function that an argument is, if the source tells.
func (w *lockWalk) arg(a ast.Expr) (lockArg, bool) {
	a = ast.Unparen(a)
	if lit, ok := a.(*ast.FuncLit); ok {
		return lockArg{lit: w.literal(lit)}, true
	}
	if tv, ok := w.info.Types[a]; !ok || tv.Type == nil || !isFunc(tv.Type) {
		return lockArg{}, false
	}
	arg := w.callee(a)
	return arg, arg.known()
}

// callee returns what an expression calls.
func (w *lockWalk) callee(x ast.Expr) lockArg {
	switch x := x.(type) {
	case *ast.FuncLit:
		return lockArg{lit: w.literal(x)}
	case *ast.IndexExpr:
		return w.callee(x.X)
	case *ast.IndexListExpr:
		return w.callee(x.X)
	case *ast.Ident:
		switch o := w.object(x).(type) {
		case *types.Func:
			return lockArg{to: o.Origin()}
		case *types.Var:
			for at := w; at != nil; at = at.outer {
				if lit := at.lits[o]; lit != nil {
					return lockArg{lit: lit}
				}
			}
			if i, ok := w.f.params[o]; ok {
				return lockArg{param: i + 1}
			}
		}
	case *ast.SelectorExpr:
		switch o := w.info.Uses[x.Sel].(type) {
		case *types.Func:
			return lockArg{to: o.Origin()}
		case *types.Var:
			if o.IsField() && isFunc(o.Type()) {
				return lockArg{field: o.Origin()}
			}
		}
	}
	return lockArg{}
}

func (w *lockWalk) object(id *ast.Ident) types.Object {
	if o := w.info.Defs[id]; o != nil {
		return o
	}
	return w.info.Uses[id]
}

func (w *lockWalk) literal(lit *ast.FuncLit) *lockFunc {
	sig := w.info.Types[lit].Type.(*types.Signature)
	f := w.g.read(w.info, w.g.place(lit.Pos())+" a literal", sig, lit.Body, w)
	w.g.funcs[types.NewFunc(lit.Pos(), nil, "literal", sig)] = f
	return f
}
