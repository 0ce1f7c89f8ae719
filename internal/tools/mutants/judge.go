package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// verdict says what a package's tests make of a mutant.
type verdict string

const (
	killed   verdict = "killed" // a test fails, or the tests do not end in time
	survived verdict = "survived"
	unbuilt  verdict = "unbuilt" // the compiler notices
)

// judge runs a package's own tests with a mutant.
type judge struct {
	root    string
	dir     string        // for temporary files
	timeout time.Duration // of the tests
}

// run builds the tests with an overlay, so that the tree stays as it is, and runs them.
func (j *judge) run(ctx context.Context, m *mutant) (verdict, error) {
	dir, err := os.MkdirTemp(j.dir, "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(j.root, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, "changed") // no .go file, which would be a package of this module
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	mutated := string(text[:m.start]) + m.with + string(text[m.end:])
	if err := errors.Join(os.WriteFile(changed, []byte(mutated), 0o600), os.WriteFile(list, overlay, 0o600)); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "test")
	if out, err := j.command(ctx, j.root, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", binary, "./"+m.pkg); ctx.Err() != nil {
		return "", ctx.Err()
	} else if err != nil {
		if !bytes.Contains(out, []byte(m.pkg)) && !strings.Contains(string(out), "# ") {
			return "", fmt.Errorf("go test -c: %w: %.400s", err, out)
		}
		return unbuilt, nil
	}
	limit, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	_, err = j.command(limit, filepath.Join(j.root, m.pkg), binary, "-test.short", "-test.failfast", "-test.timeout", j.timeout.String())
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return survived, nil
	}
	return killed, nil
}

// command runs a program, and all that it starts ends with it.
func (j *judge) command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.WaitDelay = time.Second
	ownGroup(c)
	return c.CombinedOutput()
}
