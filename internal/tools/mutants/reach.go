package main

import (
	"context"
	"os"
	"slices"
	"time"
)

// reaching returns the tests that can notice a mistake, those that are quick first, and the names of those that
// the program with the switch cannot run.
func (p *plan) reaching(m *mutant) (tests []some, unfit []string) {
	reach := func(of *profile) bool { return of == nil || of.reaches(m.file, p.set.Position(m.from)) }
	if !p.wide && !reach(p.reached) {
		return nil, nil
	}
	// Of what none reaches by itself, anything may come together, or in another process.
	any := p.together <= brief || !slices.ContainsFunc(p.tests, func(t *test) bool { return t.of != nil && reach(t.of) })
	var names [2][]string
	var takes, longest [2]time.Duration
	for _, t := range p.tests {
		switch i := 0; {
		case !any && !reach(t.of):
		case t.unfit:
			unfit = append(unfit, t.name)
		default:
			if t.takes > quick {
				i = 1
			}
			names[i], takes[i], longest[i] = append(names[i], t.name), takes[i]+t.takes, max(longest[i], t.takes)
		}
	}
	for i, n := range names {
		switch {
		case len(n) == 0:
		case p.together <= brief:
			tests = append(tests, p.all(n))
		default:
			tests = append(tests, some{pattern: pattern(n), limit: limit(takes[i]), idle: idle(longest[i])})
		}
	}
	return tests, unfit
}

// all are tests whose own times are not known.
func (p *plan) all(names []string) some {
	return some{pattern: pattern(names), limit: limit(p.together), idle: idle(p.together)}
}

// limit is how long tests may take that else take so long. A machine that does other work, too, is slower, but
// not by that much.
func limit(usual time.Duration) time.Duration { return 10*time.Second + 10*usual }

// idle is how long tests may do nothing if the longest of them usually takes so long.
func idle(usual time.Duration) time.Duration { return 3*time.Second + 2*usual }

// try judges one mistake.
func (p *plan) try(ctx context.Context, m *mutant) (verdict, error) {
	if !p.builds(m) {
		return unbuilt, nil
	}
	tests, unfit := p.reaching(m)
	n := p.numbers[m]
	if n == 0 {
		if len(tests)+len(unfit) == 0 {
			return survived, nil
		}
		if len(unfit) > 0 {
			tests = append(tests, p.all(unfit))
		}
		return p.run(ctx, m, tests...)
	}
	binary, err := p.with(n)
	if err != nil {
		return "", err
	}
	defer os.Remove(binary)
	v, err := p.judge.judge(ctx, p.pkg, binary, tests)
	if v == survived && len(unfit) > 0 {
		return p.run(ctx, m, p.all(unfit))
	}
	return v, err
}
