package rules

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"slices"
	"strings"
	"testing"
)

// TestLockGraph shows what the check sees, and what it does not.
func TestLockGraph(t *testing.T) {
	const src = `package p

import "sync"

type A struct{ mu sync.Mutex; f func(); i I }
type B struct{ mu sync.RWMutex }
type C struct{ sync.Mutex }
type D struct{ mu sync.Mutex }
type E struct{ mu sync.Mutex }
type I interface{ do() }

var v sync.Mutex
var anon struct{ mu sync.Mutex }

func (b *B) do() { b.mu.RLock(); defer b.mu.RUnlock() }

func direct(a *A, b *B) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	b.mu.Unlock()
	v.Lock()
	v.Unlock()
}
func released(a *A, d *D, now bool) {
	a.mu.Lock()
	if now {
		a.mu.Unlock()
		d.mu.Lock()
		d.mu.Unlock()
		return
	}
	a.mu.Unlock()
	d.mu.Lock()
	d.mu.Unlock()
}
func byInterface(c *C, i I) { c.Lock(); defer c.Unlock(); i.do() }
func with(d *D, f func()) { d.mu.Lock(); defer d.mu.Unlock(); through(f) }
func through(f func()) { f() }
func byArgument(d *D, c *C) { with(d, func() { c.Lock(); c.Unlock() }) }
func takesE(e *E) { e.mu.Lock(); e.mu.Unlock() }
func byField(b *B, e *E) {
	a := &A{f: func() { takesE(e) }}
	b.mu.Lock()
	defer b.mu.Unlock()
	a.f()
}
func deferred(b *B) { anon.mu.Lock(); defer anon.mu.Unlock(); defer b.do() }
func apart(e *E, a *A) {
	e.mu.Lock()
	defer e.mu.Unlock()
	go func() { a.mu.Lock(); a.mu.Unlock() }()
	a.OnClose(func() { a.mu.Lock(); a.mu.Unlock() })
}
func (a *A) OnClose(f func()) { f() }
func unseen(e *E, all []func()) {
	all = append(all, func() { v.Lock(); v.Unlock() })
	e.mu.Lock()
	defer e.mu.Unlock()
	all[0]()
}
func keeps(e *E) { e.mu.Lock() }
`
	g := newLockGraph()
	f, err := parser.ParseFile(g.fset, "p.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	_, read, err := g.check(module+"/p", []*ast.File{f}, importer.ForCompiler(g.fset, "source", nil))
	if err != nil {
		t.Fatal(err)
	}
	read()
	g.close()
	var got, kept []string
	for held, all := range g.edges {
		for taken := range all {
			got = append(got, held+" > "+taken)
		}
	}
	for _, f := range g.funcs {
		for _, mu := range f.leaves {
			if !strings.HasPrefix(mu, "defer ") {
				kept = append(kept, f.name+" "+mu)
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"p.A.mu > p.B.mu", "p.A.mu > p.v", "p.B.mu > p.E.mu", "p.C.Mutex > p.B.mu", "p.D.mu > p.C.Mutex", "p.anon.mu > p.B.mu",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(kept) != 1 || !strings.Contains(kept[0], "keeps p.E.mu") {
		t.Errorf("held at the end: %q", kept)
	}
	if c := g.cycle(); c != nil {
		t.Errorf("a cycle: %q", c)
	}
	if h := g.heights(); h["p.D.mu"] != 3 || h["p.E.mu"] != 0 {
		t.Errorf("numbers: %v", h)
	}
	if next := g.next("p.A.mu"); !slices.Equal(next, []string{"p.B.mu", "p.v"}) {
		t.Errorf("after p.A.mu: %q", next)
	}
	g.edge([]string{"p.E.mu"}, "p.D.mu", "a test")
	if c := g.cycle(); len(c) != 4 {
		t.Errorf("no cycle: %q", c)
	}
}
