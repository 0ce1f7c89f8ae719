package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"strings"
	"testing"
)

func shortPath(rel string) string {
	if rel == "" {
		return "chive"
	}
	return strings.TrimPrefix(rel, "internal/")
}

// mutexes returns the mutexes that are fields or variables of a file, and what its comments say
// that they guard: if these say "what follows", with the names of that.
func mutexes(f *ast.File) map[string]string {
	found := map[string]string{}
	fields := func(in string, st *ast.StructType) {
		for i, field := range st.Fields.List {
			if !isMutexType(field.Type) {
				continue
			}
			name := "Mutex"
			if len(field.Names) > 0 {
				name = field.Names[0].Name
			}
			found[in+"."+name] = guarded(field, st.Fields.List[i+1:])
		}
	}
	for _, d := range f.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range gen.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if st, ok := s.Type.(*ast.StructType); ok {
					fields(s.Name.Name, st)
				}
			case *ast.ValueSpec:
				if st, ok := s.Type.(*ast.StructType); ok {
					fields(s.Names[0].Name, st)
				}
				if isMutexType(s.Type) {
					found[s.Names[0].Name] = comment(s.Comment) + comment(s.Doc) + comment(gen.Doc)
				}
			}
		}
	}
	return found
}

func isMutexType(x ast.Expr) bool {
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	p, ok := sel.X.(*ast.Ident)
	return ok && p.Name == "sync" && (sel.Sel.Name == "Mutex" || sel.Sel.Name == "RWMutex")
}

func comment(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

var whatFollows = regexp.MustCompile(`what follows|(the fields|all) below`)

// guarded returns what a mutex guards: its comment, or that above it, with the fields up to the next
// mutex, or the next group with another owner, if the comment says so. Without a comment it is the
// fields whose own comments name the mutex.
func guarded(field *ast.Field, after []*ast.Field) string {
	text := comment(field.Comment)
	if text == "" {
		text = comment(field.Doc)
	}
	if text != "" && !whatFollows.MatchString(text) {
		return text
	}
	var names []string
	if text == "" && len(field.Names) > 0 {
		by := regexp.MustCompile(`(?i)guarded by ` + field.Names[0].Name + `\b`)
		for _, x := range after {
			if by.MatchString(comment(x.Comment)) || by.MatchString(comment(x.Doc)) {
				for _, n := range x.Names {
					names = append(names, "`"+n.Name+"`")
				}
			}
		}
		if len(names) > 0 {
			text = "guards " + strings.Join(names, ", ")
		}
		return text
	}
	for i, x := range after {
		if isMutexType(x.Type) || i > 0 && x.Doc != nil && strings.Contains(comment(x.Doc), "owned by") {
			break
		}
		for _, n := range x.Names {
			names = append(names, "`"+n.Name+"`")
		}
		if len(x.Names) == 0 {
			names = append(names, "what is embedded")
		}
	}
	return whatFollows.ReplaceAllString(text, strings.Join(names, ", "))
}

// TestMutexes shows what the page says of mutexes.
func TestMutexes(t *testing.T) {
	const src = `package p
type A struct {
	x  int
	mu sync.Mutex // guards what follows, and y
	a, b int
	other sync.RWMutex
	c int // guarded by other
	d int // not
	E
	// Held while nothing happens.
	third sync.Mutex
	bare sync.Mutex
}
var v sync.Mutex // held for a test
var anon struct{
	mu sync.Mutex // guards all below
	m map[int]int

	// owned by nobody
	n int
}
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"A.mu": "guards `a`, `b`, and y", "A.other": "guards `c`", "A.third": "Held while nothing happens.", "A.bare": "",
		"v": "held for a test", "anon.mu": "guards `m`",
	}
	if got := mutexes(f); !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
