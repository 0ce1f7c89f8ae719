package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"slices"
	"strconv"
)

// checked is a package with the types of its expressions.
type checked struct {
	pkg      string
	path     string // to import it
	name     string
	set      *token.FileSet
	files    map[string]*ast.File // by their names below the repository
	text     map[string][]byte
	info     *types.Info
	types    *types.Package
	from     types.Importer
	constant map[ast.Node]ast.Expr // what is in a constant expression of a function: the largest such expression
	bare     map[string]*ast.File  // the files without the functions' bodies
	mutants  []mutant              // as mutantsOf has them
}

// check reads a package, whose imports the go command has built.
func check(ctx context.Context, root, pkg string) (*checked, error) {
	p := &checked{pkg: pkg, set: token.NewFileSet(), files: map[string]*ast.File{}, text: map[string][]byte{}, constant: map[ast.Node]ast.Expr{}, bare: map[string]*ast.File{}}
	var err error
	if p.mutants, err = findIn(p.set, root, pkg, p.files); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, "go", "list", "-deps", "-export", "-json=ImportPath,Export,Name,GoFiles", "./"+pkg)
	c.Dir = root
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	type listed struct {
		ImportPath, Export, Name string
		GoFiles                  []string
	}
	var last listed // the package itself
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var next listed
		if err := d.Decode(&next); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		exports[next.ImportPath], last = next.Export, next
	}
	p.path, p.name = last.ImportPath, last.Name
	p.from = importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var files []*ast.File
	for _, base := range last.GoFiles {
		name := pkg + "/" + base
		if p.text[name], err = os.ReadFile(filepath.Join(root, name)); err != nil {
			return nil, err
		}
		if p.files[name] == nil {
			if p.files[name], err = parser.ParseFile(p.set, name, p.text[name], parser.SkipObjectResolution); err != nil {
				return nil, err
			}
		}
		files = append(files, p.files[name])
		p.bare[name] = bare(p.files[name])
	}
	for name := range p.files {
		if p.text[name] == nil {
			return nil, fmt.Errorf("%s is not built here", name)
		}
	}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	if p.types, err = (&types.Config{Importer: p.from}).Check(p.path, p.set, files, p.info); err != nil {
		return nil, err
	}
	for _, f := range files {
		p.constants(f)
	}
	return p, nil
}

// bare returns a file whose functions have no bodies, where Go allows that.
func bare(f *ast.File) *ast.File {
	b := *f
	b.Decls = slices.Clone(f.Decls)
	for i, d := range b.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Type.TypeParams == nil && fn.Name.Name != "init" && fn.Name.Name != "main" {
			head := *fn
			head.Body = nil
			b.Decls[i] = &head
		}
	}
	return &b
}

// constants finds the largest constant expressions, without those that must be constant.
func (p *checked) constants(f *ast.File) {
	var outer ast.Expr
	var walk func(n ast.Node) bool
	walk = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.CONST {
				p.mustBe(n)
				return false
			}
		case *ast.ArrayType:
			if n.Len != nil {
				p.mustBe(n.Len)
			}
			ast.Inspect(n.Elt, walk)
			return false
		case ast.Expr:
			if outer == nil && p.info.Types[n].Value != nil {
				outer = n
				ast.Inspect(n, func(in ast.Node) bool {
					if in != nil {
						p.constant[in] = outer
					}
					return true
				})
				outer = nil
				return false
			}
		}
		return true
	}
	ast.Inspect(f, walk)
}

// mustBe notes what no switch can change.
func (p *checked) mustBe(n ast.Node) {
	ast.Inspect(n, func(in ast.Node) bool {
		if x, ok := in.(ast.Expr); ok {
			p.constant[in] = &ast.BadExpr{From: x.Pos(), To: x.End()}
		}
		return true
	})
}

// typeName writes a type as a file can.
func (p *checked) typeName(file string, t types.Type) (string, bool) {
	if t == nil || t == types.Typ[types.Invalid] {
		return "", false
	}
	ok := true
	name := types.TypeString(types.Default(t), func(of *types.Package) string {
		if of == p.types {
			return ""
		}
		for _, i := range p.files[file].Imports {
			if path, err := strconv.Unquote(i.Path.Value); err == nil && path == of.Path() {
				if i.Name != nil {
					return i.Name.Name
				}
				return of.Name()
			}
		}
		ok = false
		return ""
	})
	return name, ok
}

// builds reports whether the compiler would let a mistake pass. It looks at the file with the mistake, and of
// the others only at what they declare.
func (p *checked) builds(m *mutant) bool {
	text := p.text[m.file]
	f, err := parser.ParseFile(p.set, m.file, slices.Concat(text[:m.start], []byte(m.with), text[m.end:]), parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	files := []*ast.File{f}
	for name, b := range p.bare {
		if name != m.file {
			files = append(files, b)
		}
	}
	good := true
	(&types.Config{Importer: p.from, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) && f.FileStart <= e.Pos && e.Pos <= f.FileEnd {
			good = false
		}
	}}).Check(p.path, p.set, files, nil)
	return good
}
