package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// plan is how a package's mistakes are tried quickly: one program has all that a switch can make, and only
// the tests that reach a mistake's line are run.
type plan struct {
	*judge
	*checked
	dir      string
	program  []byte
	at       int             // of the switch in the program
	numbers  map[*mutant]int // of those that the program has; they begin with 1
	tests    []*test
	together time.Duration
	reached  *profile // by all tests together
	wide     bool     // tests start programs, of which the profile knows nothing
}

// test is a test by itself.
type test struct {
	name  string
	takes time.Duration
	of    *profile // nil: it may reach everything
	unfit bool     // it fails in the program with the switch, for example as it counts allocations
}

const (
	quick = 200 * time.Millisecond // such tests are run first
	brief = 500 * time.Millisecond // tests that take no longer together are not looked at one by one
)

// newPlan builds a package's tests with its mistakes, and looks at what each test reaches.
func newPlan(ctx context.Context, j *judge, pkg string) (*plan, error) {
	p := &plan{judge: j}
	var err error
	if p.checked, err = check(ctx, j.root, pkg); err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	if p.dir, err = os.MkdirTemp(j.dir, "plan"); err != nil {
		return nil, err
	}
	if err = errors.Join(p.build(ctx), ctx.Err()); err == nil {
		err = errors.Join(p.look(ctx), ctx.Err())
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("%s: %w", pkg, err)
	}
	return p, nil
}

func (p *plan) close() { os.RemoveAll(p.dir) }

var complaint = regexp.MustCompile(`(?m)^(\S+\.go)(?:\.changed)?:(\d+):`)

// build builds the program with the switch. What the compiler does not like there goes without.
func (p *plan) build(ctx context.Context) error {
	without := map[*mutant]bool{}
	for {
		edits := map[string][]edit{}
		p.numbers = map[*mutant]int{}
		for i := range p.mutants {
			m := &p.mutants[i]
			if without[m] {
				continue
			}
			if e, err := p.edits(m, i+1); err == nil {
				edits[m.file] = append(edits[m.file], e...)
				p.numbers[m] = i + 1
			}
		}
		files := map[string][]byte{p.pkg + "/chive_mistakes.go": []byte("package " + p.name + "\n" + switched)}
		for name, e := range edits {
			files[name] = apply(p.set, p.text[name], e)
		}
		binary, out, err := p.judge.build(ctx, p.dir, p.pkg, files, "-gcflags=-e")
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			return p.load(binary)
		}
		more := false
		for _, c := range complaint.FindAllStringSubmatch(string(out), -1) {
			line, _ := strconv.Atoi(c[2])
			for m := range p.numbers {
				if filepath.Base(m.file) == filepath.Base(c[1]) && p.set.Position(m.node.Pos()).Line <= line && line <= p.set.Position(m.node.End()).Line {
					without[m], more = true, true
				}
			}
		}
		if !more {
			return fmt.Errorf("the program with the switch does not build: %.2000s", out)
		}
	}
}

func (p *plan) load(name string) (err error) {
	if p.program, err = os.ReadFile(name); err != nil {
		return err
	}
	sign := binary.NativeEndian.AppendUint64(nil, mark)
	switch n := bytes.Count(p.program, sign); n {
	case 0: // no test calls the package's code
		clear(p.numbers)
	case 1:
		p.at = bytes.Index(p.program, sign)
	default:
		return fmt.Errorf("the switch is there %d times", n)
	}
	return nil
}

// with writes the program with a mistake; 0: without.
func (p *plan) with(n int) (string, error) {
	f, err := os.CreateTemp(p.dir, "program")
	if err != nil {
		return "", err
	}
	f.Close()
	program := slices.Clone(p.program)
	if n != 0 {
		binary.NativeEndian.PutUint64(program[p.at:], uint64(n))
	}
	return f.Name(), write(f.Name(), program)
}

// look runs the tests without a mistake: together, and one by one where that is worth the time.
func (p *plan) look(ctx context.Context) error {
	binary, err := p.with(0)
	if err != nil {
		return err
	}
	defer os.Remove(binary)
	list, err := p.command(ctx, filepath.Join(p.root, p.pkg), binary, "-test.list", ".")
	if err != nil {
		return fmt.Errorf("list of tests: %w: %.400s", err, list)
	}
	for name := range strings.FieldsSeq(string(list)) {
		if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example") {
			p.tests = append(p.tests, &test{name: name})
		}
	}
	sources, err := filepath.Glob(filepath.Join(p.root, p.pkg, "*_test.go"))
	if err != nil {
		return err
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		p.wide = p.wide || bytes.Contains(text, []byte("os.Args[0]")) || bytes.Contains(text, []byte("os.Executable"))
	}
	dir := filepath.Join(p.dir, "cover")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	covered, out, err := p.judge.build(ctx, dir, p.pkg, nil, "-cover", "-covermode=atomic")
	if err != nil {
		return fmt.Errorf("go test -c -cover: %w: %.400s", err, out)
	}
	began := time.Now()
	if p.reached, _, err = p.profile(ctx, covered, some{limit: 10 * p.timeout}); err != nil {
		return err
	}
	p.together = time.Since(began)
	if p.together > brief {
		if err := p.each(ctx, covered); err != nil {
			return err
		}
	}
	return p.fit(ctx, binary)
}

// each runs the tests one by one, a few at a time.
func (p *plan) each(ctx context.Context, covered string) error {
	var wait sync.WaitGroup
	errs := make([]error, len(p.tests))
	turn := make(chan struct{}, max(1, p.jobs))
	for i, t := range p.tests {
		turn <- struct{}{}
		wait.Go(panics.Contain(nil, func(err error) { errs[i] = err }, func() {
			defer func() { <-turn }()
			began := time.Now()
			of, good, err := p.profile(ctx, covered, some{pattern: "^" + t.name + "$", limit: 10 * p.timeout})
			if t.takes = time.Since(began); good {
				t.of = of
			}
			errs[i] = err
		}))
	}
	wait.Wait()
	return errors.Join(errs...)
}

// profile runs tests and says what they reach. Tests that fail here may do so because of the counters.
func (p *plan) profile(ctx context.Context, binary string, t some) (*profile, bool, error) {
	f, err := os.CreateTemp(p.dir, "profile")
	if err != nil {
		return nil, false, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	good, _ := p.once(ctx, p.pkg, binary, t, "-test.failfast=false", "-test.coverprofile", f.Name())
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	of, err := readProfile(f, p.path, p.pkg)
	return of, good, err
}

// fit finds the tests that fail in the program with the switch while no mistake is made.
func (p *plan) fit(ctx context.Context, binary string) error {
	for range 10 {
		good, who := p.once(ctx, p.pkg, binary, some{skip: p.unfit(), limit: 10 * p.timeout})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if good {
			break
		}
		i := slices.IndexFunc(p.tests, func(t *test) bool { return t.name == who })
		if i < 0 || p.tests[i].unfit {
			return fmt.Errorf("the tests fail without a mistake (%s)", who)
		}
		p.tests[i].unfit = true
	}
	for _, t := range p.tests { // one that failed by itself with counters: does it without?
		if p.together > brief && t.of == nil && !t.unfit {
			if good, _ := p.once(ctx, p.pkg, binary, some{pattern: "^" + t.name + "$", limit: 10 * p.timeout}); !good {
				t.unfit = true
			}
		}
	}
	return ctx.Err()
}

// unfit is a pattern of these tests.
func (p *plan) unfit() string {
	var names []string
	for _, t := range p.tests {
		if t.unfit {
			names = append(names, t.name)
		}
	}
	return pattern(names)
}

func pattern(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "^(" + strings.Join(names, "|") + ")$"
}
