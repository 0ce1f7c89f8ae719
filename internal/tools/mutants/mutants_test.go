package main

import (
	"errors"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../../.."

// TestSurvivorsAreThere: every survivor of the file names a mistake that can still be made, and no more
// often than it can. Whoever changes the line, or writes the test, takes the entry away.
func TestSurvivorsAreThere(t *testing.T) {
	s, err := readSurvivors(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	there := map[key]int{}
	for pkg, run := range s.run {
		all, err := mutantsOf(root, pkg)
		if err != nil || len(all) == 0 && run {
			t.Errorf("%s: %d mistakes, %v", pkg, len(all), err)
		}
		for _, m := range all {
			there[m.key]++
		}
	}
	for k, n := range s.of {
		if n > there[k] {
			t.Errorf("%s is gone: take it out of %s", k, file)
		}
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := s.write(copied); err != nil {
		t.Fatal(err)
	}
	is, err1 := os.ReadFile(filepath.Join(root, file))
	would, err2 := os.ReadFile(copied)
	if err := errors.Join(err1, err2); err != nil || string(is) != string(would) {
		t.Errorf("%s is not as the program writes it: the lines in their order, each once for each mistake (%v)", file, err)
	}
}

// TestKinds: the mistakes that are made in a piece of code, and what they make of it.
func TestKinds(t *testing.T) {
	const text = `package p

func (b *box[T]) f(a, n int) (int, error) {
	defer b.unlock()
	b.x = 1
	_ = n
	if a < 3 && n != 0 {
		return 0, fault.New(x)
	}
	go func() {
		if a >= n {
			return
		}
		b.n++
	}()
	for i := range 5 {
		b.c <- i
	}
	return g()
}
`
	all, _, err := mutantsIn(token.NewFileSet(), "p", "p/f.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		if m.fn != "(*box).f" || m.pkg != "p" || m.file != "p/f.go" {
			t.Error("it is elsewhere:", m.key)
		}
		got = append(got, m.kind+": "+text[m.start:m.end]+" -> "+m.with+" | "+m.line)
	}
	want := []string{
		"defer removed: defer b.unlock() -> {} | defer b.unlock()",
		"statement removed: b.x = 1 -> {} | b.x = 1",
		"condition negated: a < 3 && n != 0 -> !(a < 3 && n != 0) | if a < 3 && n != 0 {",
		"comparison off by one: < -> <= | if a < 3 && n != 0 {",
		"number off by one: 3 -> 4 | if a < 3 && n != 0 {",
		"and/or swapped: && -> || | if a < 3 && n != 0 {",
		"error becomes nil: fault.New(x) -> nil | return 0, fault.New(x)",
		"condition negated: a >= n -> !(a >= n) | if a >= n {",
		"comparison off by one: >= -> > | if a >= n {",
		"return removed: return -> {} | return",
		"statement removed: b.n++ -> {} | b.n++",
		"statement removed: b.c <- i -> {} | b.c <- i",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestJudge: of a package with a test, one mistake is noticed, one is not, and one the compiler notices. A
// second run tries only what nobody noticed, and fails where the file does not have it.
func TestJudge(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\n\ngo 1.26\n")
	write("p/p.go", "package p\n\nvar seen, unseen, endless int\n\nfunc f() {\n\tseen = 1\n\tunseen = 1\n\tfor endless < 3 {\n\t\tendless++\n\t}\n}\n")
	write("p/p_test.go", "package p\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif f(); seen != 1 || endless != 3 {\n\t\tt.Error()\n\t}\n}\n")
	write(file, "p\tnot run\n")
	o := options{root: dir, pkgs: "p", jobs: 2, timeout: 2 * time.Second}
	var out strings.Builder
	err := run(t.Context(), &out, &o)
	if err == nil || strings.Count(out.String(), "new, ") != 1 || !strings.Contains(out.String(), "p\tf\tstatement removed\tunseen = 1") {
		t.Errorf("%v: %s", err, out.String())
	}
	o.update = true
	if err := run(t.Context(), io.Discard, &o); err != nil {
		t.Error(err)
	}
	o.update = false
	s, err := readSurvivors(filepath.Join(dir, file))
	if err != nil || !s.run["p"] || len(s.of) != 1 || s.of[key{"p", "f", removed, "unseen = 1"}] != 1 {
		t.Errorf("%v: %v", err, s)
	}
	if err := run(t.Context(), io.Discard, &o); err != nil {
		t.Error("what the file has:", err)
	}
}

// TestNamed: a package is the same one with and without "./".
func TestNamed(t *testing.T) {
	o := options{pkgs: "./internal/cell, internal/cert/ ./internal/../lab"}
	if got, want := o.named(), []string{"internal/cell", "internal/cert", "lab"}; !slices.Equal(got, want) {
		t.Errorf("%q, wanted %q", got, want)
	}
}
