package rules

import (
	"go/ast"
	"go/types"
	"path/filepath"
	"strings"
)

// mutex returns the name of a mutex that an expression locks or unlocks, and how.
func (w *lockWalk) mutex(x ast.Expr) (name, op string) {
	c, ok := ast.Unparen(x).(*ast.CallExpr)
	if !ok {
		return "", ""
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	f, ok := w.info.Uses[sel.Sel].(*types.Func)
	if !ok || f.Pkg() == nil || f.Pkg().Path() != "sync" {
		return "", ""
	}
	recv := f.Signature().Recv()
	if recv == nil || !isMutex(recv.Type()) {
		return "", ""
	}
	switch f.Name() {
	case "Lock", "Unlock", "RLock", "RUnlock":
		return w.owner(sel), f.Name()
	}
	return "", ""
}

func isMutex(t types.Type) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := t.(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "sync" && (n.Obj().Name() == "Mutex" || n.Obj().Name() == "RWMutex")
}

// owner names a mutex by the package, the type and the field that has it, or by its variable.
func (w *lockWalk) owner(sel *ast.SelectorExpr) string {
	switch x := ast.Unparen(sel.X).(type) {
	case *ast.SelectorExpr:
		if s := w.info.Selections[x]; s != nil {
			return fieldOwner(s, x)
		}
		if o := w.info.Uses[x.Sel]; o != nil {
			return short(o.Pkg()) + "." + o.Name()
		}
	case *ast.Ident:
		if o := w.object(x); o != nil {
			if s := w.info.Selections[sel]; s != nil && len(s.Index()) > 1 { // an embedded mutex
				if n, ok := deref(s.Recv()).(*types.Named); ok {
					return short(n.Obj().Pkg()) + "." + n.Obj().Name() + ".Mutex"
				}
			}
			name := short(o.Pkg()) + "." + o.Name()
			if o.Parent() != o.Pkg().Scope() {
				name += " (" + filepath.Base(w.g.fset.Position(o.Pos()).Filename) + ")"
			}
			return name
		}
	}
	return "an unknown mutex at " + w.g.place(sel.Pos())
}

// fieldOwner names a field by the struct that has it, also if that is embedded in another.
func fieldOwner(s *types.Selection, x *ast.SelectorExpr) string {
	t := deref(s.Recv())
	idx := s.Index()
	for _, i := range idx[:len(idx)-1] {
		st, ok := t.Underlying().(*types.Struct)
		if !ok {
			break
		}
		t = deref(st.Field(i).Type())
	}
	if n, ok := t.(*types.Named); ok {
		return short(n.Obj().Pkg()) + "." + n.Obj().Name() + "." + s.Obj().Name()
	}
	return short(s.Obj().Pkg()) + "." + types.ExprString(x) // a variable of a type without a name
}

func deref(t types.Type) types.Type {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		return types.Unalias(p.Elem())
	}
	return t
}

func short(p *types.Package) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(p.Path(), module), "/")
	if rel == "" {
		return "chive"
	}
	return strings.TrimPrefix(rel, "internal/")
}
