package main

import (
	"errors"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module writes a module with the package p.
func module(t *testing.T, code, tests string) *options {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds programs")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "p/p.go": code, "p/p_test.go": tests, file: "p\tnot run\n"} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, state), 0o755); err != nil {
		t.Fatal(err)
	}
	return &options{root: dir, pkgs: "p", jobs: 2, timeout: 20 * time.Second}
}

// plan makes one of the package p.
func (o *options) plan(t *testing.T) *plan {
	t.Helper()
	p, err := newPlan(t.Context(), o.judge(false), "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// TestBothWays: the tests make the same of each mistake, whether it has a program of its own or is one of many
// in a program with a switch. The code has what is special about each kind. Programs of their own
// for all of them would take minutes.
func TestBothWays(t *testing.T) {
	o := module(t, `package p

import (
	"errors"
	"time"
)

type level int8

const most level = 3

var (
	errMost = errors.New("most")
	total   int
	wait    time.Duration
	floats  = []float64{1, 2}
	made    = make(map[int]bool, 2+2)
)

func done() { total *= 2 }

func use(...any) {}

func f(a, n int, l level) (int, error) {
	defer done()
	if y := a + 1; a < 3 && (n != 0 || y >= 9 && l < most) {
		return 0, errors.New("few")
	}
	if a >= n || l > most-1 {
		total++
		return a,
			errMost
	}
	unused := n
	use(unused)
	wait = 2*time.Second + time.Duration(n)*3*time.Millisecond
	var b [2 * 4]byte
	switch {
	case n > 1<<3 && floats[0]*1.5 > floats[1]:
		total = 7
	case uint8(n)+250 > 251:
		total = 5
	}
	func() {
		if n <= 7 {
			return
		}
		total += 2
	}()
	if len(b) < 9 {
		made[n] = true
	}
	return total/2 + len(b), g(a)
}

func g(a int) error {
	if a == 5 {
		return errMost
	}
	for a > 7 {
		a--
	}
	return nil
}

func h(s string) (n int) {
	for {
		if n++; n > 2 && s <= "b" {
			return
		}
		if n >= 5 {
			panic(s)
		}
	}
}

func last(n int) int {
	for n != 0 {
		return n
	}
	panic("zero")
}

func never(n int) bool {
	if n > 1 {
		total = 0
	}
	return n < 5
}
`, `package p

import "testing"

func TestF(t *testing.T) {
	for _, c := range [][4]int{{1, 2, 0, 0}, {4, 2, 1, 4}, {2, 0, 0, 2}, {5, 8, 1, 10}, {3, 9, 1, 10}, {3, 8, 3, 3}} {
		total = 2
		if n, _ := f(c[0], c[1], level(c[2])); n != c[3] {
			t.Errorf("%v: %d", c, n)
		}
	}
	if _, err := f(5, 8, 1); err == nil || len(made) != 2 {
		t.Error(err, made)
	}
}

func TestH(t *testing.T) {
	if n := h("b"); n != 3 {
		t.Error(n)
	}
}
`)
	if out, err := o.judge(false).command(t.Context(), o.root, "go", "test", "./p"); err != nil {
		t.Fatalf("without a mistake: %s", out)
	}
	p := o.plan(t)
	count := map[verdict]int{}
	for i := range p.mutants {
		m := &p.mutants[i]
		many, err := p.try(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		count[many]++
		if p.numbers[m] == 0 && !strings.Contains(m.line, "[2 * 4]byte") && m.with != "256" && !strings.HasPrefix(m.line, "errMost") && many != unbuilt {
			t.Errorf("%s, %q: no switch makes it", m.key, m.with)
		}
		if i%9 != 0 {
			continue
		}
		if one, err := p.run(t.Context(), m, some{limit: time.Minute, idle: time.Second}); one != many || err != nil {
			t.Errorf("%s, %q: %s by itself (%v), %s with the switch", m.key, m.with, one, err, many)
		}
	}
	if len(p.mutants) < 50 || count[killed] < 15 || count[survived] < 5 || count[unbuilt] < 1 {
		t.Errorf("%d mistakes, %v: too few of a kind", len(p.mutants), count)
	}
}

// TestUnfit: a test that the switch itself makes fail runs in programs without, and what it alone notices is
// noticed.
func TestUnfit(t *testing.T) {
	o := module(t, `package p

var sink []byte

func f(on bool) byte {
	b := make([]byte, 100+28)
	b[0] = 1
	if on {
		sink = make([]byte, 7)
	}
	return b[0]
}
`, `package p

import "testing"

func TestAllocates(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() { f(false) }); n != 0 {
		t.Error(n)
	}
}

func TestF(t *testing.T) {
	if f(false) != 1 {
		t.Error()
	}
}
`)
	p := o.plan(t)
	if p.unfit() != "^(TestAllocates)$" {
		t.Errorf("unfit: %q", p.unfit())
	}
	for i := range p.mutants {
		m := &p.mutants[i]
		want := survived
		if m.kind == negated || m.line == "b[0] = 1" {
			want = killed
		}
		if m.kind == removed && m.line != "b[0] = 1" || m.kind == offByOne {
			want = survived
		}
		if v, err := p.try(t.Context(), m); v != want || err != nil {
			t.Errorf("%s: %s, %v", m.key, v, err)
		}
	}
}

// TestReach: of each mistake only the tests are run that reach it, and where none does, nobody notices. A test
// that starts the program again may reach everything.
func TestReach(t *testing.T) {
	const code = `package p

func f(n int) int {
	if n > 1 {
		n++
	}
	return n
}

func g(n int) int {
	n++
	return n
}
`
	const tests = `package p

import (
	"testing"
	"time"
)

func TestF(t *testing.T) {
	if f(1) != 1 {
		t.Error()
	}
	time.Sleep(time.Second) // so that the tests are looked at one by one
}

func TestG(t *testing.T) {
	if g(1) != 2 {
		t.Error()
	}
}
`
	for _, c := range []struct {
		more string
		want map[string]string
	}{
		{"", map[string]string{"if n > 1 {": "^(TestF)$", "f: n++": "", "g: n++": "^(TestG)$"}},
		{"\nvar _ = os.Args[0]\n", map[string]string{"if n > 1 {": "^(TestF)$", "f: n++": "^(TestG)$ ^(TestF)$", "g: n++": "^(TestG)$"}},
	} {
		text := tests + c.more
		if c.more != "" {
			text = strings.Replace(text, "import (\n", "import (\n\t\"os\"\n", 1)
		}
		p := module(t, code, text).plan(t)
		p.tests[0].takes, p.tests[1].takes = 2*quick, quick // whatever the machine made of them
		for i := range p.mutants {
			m := &p.mutants[i]
			var got []string
			some, _ := p.reaching(m)
			for _, s := range some {
				got = append(got, s.pattern)
			}
			want, ok := c.want[m.line]
			if !ok {
				want = c.want[m.fn+": "+m.line]
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %q", m.key, got)
			}
		}
	}
}

// TestSometimes: what a test notices only sometimes is a survivor in the file, and no failure compared with it.
func TestSometimes(t *testing.T) {
	code := "package p\n\nvar (\n\ton bool\n\tn int\n)\n\nfunc f() {\n\tn = 0\n\ton = true\n" + strings.Repeat("\tn++\n", few) + "}\n"
	o := module(t, code, `package p

import (
	"os"
	"testing"
)

func TestF(t *testing.T) {
	n = 1
	if f(); n != 16 {
		t.Error(n)
	}
	if !on {
		if _, err := os.Stat("seen"); err != nil {
			os.WriteFile("seen", nil, 0o600)
			t.Error()
		} else {
			os.Remove("seen")
		}
	}
}
`)
	var out strings.Builder
	if err := run(t.Context(), &out, o); err != nil || !strings.Contains(out.String(), "18 mistakes, 1 tests") {
		t.Errorf("compared: %v: %s", err, out.String())
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(o.root, state)), os.RemoveAll(filepath.Join(o.root, "p/seen"))); err != nil {
		t.Fatal(err)
	}
	o.update = true
	if err := run(t.Context(), io.Discard, o); err != nil {
		t.Error(err)
	}
	s, err := readSurvivors(filepath.Join(o.root, file))
	if err != nil || len(s.of) != 1 || s.of[key{"p", "f", removed, "on = true"}] != 1 {
		t.Errorf("%v: %v", err, s.of)
	}
}

// TestReaches: what a profile says of a place.
func TestReaches(t *testing.T) {
	p, err := readProfile(strings.NewReader("mode: atomic\nm/p/f.go:3.10,5.2 2 7\nm/p/f.go:5.2,9.3 1 0\n"), "m/p", "p")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line, column int
		want         bool
	}{{3, 9, true}, {3, 10, true}, {5, 1, true}, {5, 2, false}, {9, 2, false}, {9, 3, true}} {
		if got := p.reaches("p/f.go", token.Position{Line: c.line, Column: c.column}); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
	for _, bad := range []string{"", "mode: atomic\n", "m/p/f.go:3.10,x 1 1\n"} {
		if _, err := readProfile(strings.NewReader(bad), "m/p", "p"); err == nil {
			t.Errorf("%q is a profile", bad)
		}
	}
}
