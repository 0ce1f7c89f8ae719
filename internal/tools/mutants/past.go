package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// past has the verdicts on a package, by the number of the mutant. A mistake that was noticed stays so
// while the code is the same: tests that are added change nothing about it. Whoever takes tests away
// removes the directory bin/mutants, too.
type past struct {
	of    map[int]verdict
	f     *os.File
	tests string // a digest of the package's tests
}

// openPast reads the verdicts of earlier runs, which are in a file that is named by the package's code.
func openPast(root, pkg string) (*past, error) {
	names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("%s: no Go files (%v)", pkg, err)
	}
	code, tests := sha256.New(), sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		sum := code
		if strings.HasSuffix(name, "_test.go") {
			sum = tests
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(name), len(text), text)
	}
	if err := os.MkdirAll(filepath.Join(root, state), 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(root, state, strings.ReplaceAll(pkg, "/", "-")+"-"+hex.EncodeToString(code.Sum(nil)[:8]))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	p := &past{of: map[int]verdict{}, f: f, tests: hex.EncodeToString(tests.Sum(nil)[:8])}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		var i int
		var v verdict
		var tests string
		if n, err := fmt.Sscanf(line, "%d %s %s\n", &i, &v, &tests); n == 3 && err == nil && (v != survived || tests == p.tests) {
			p.of[i] = v
		}
	}
	return p, nil
}

func (p *past) note(i int, v verdict) error {
	_, err := fmt.Fprintf(p.f, "%d %s %s\n", i, v, p.tests)
	return err
}

func (p *past) close() { p.f.Close() }
