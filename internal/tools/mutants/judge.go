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
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/panics"
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
	dir     string // for temporary files
	jobs    int
	timeout time.Duration // of the tests, where nobody knows how long they take
	kills   int           // so often a mistake must be noticed before it counts as noticed
	lives   int           // so often nobody must notice it before it counts as a survivor that is new
}

// some are tests of a package that run together.
type some struct {
	pattern string // empty: all
	skip    string
	limit   time.Duration
	idle    time.Duration // if they do nothing for so long, they will never end; 0: nobody knows
}

// build makes the tests' program with some files as others, so that the tree stays as it is.
func (j *judge) build(ctx context.Context, dir, pkg string, files map[string][]byte, more ...string) (string, []byte, error) {
	replace := map[string]string{}
	for name, text := range files {
		changed := filepath.Join(dir, filepath.Base(name)+".changed") // no .go file, which would be a package of this module
		if err := os.WriteFile(changed, text, 0o600); err != nil {
			return "", nil, err
		}
		replace[filepath.Join(j.root, name)] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "test")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", nil, err
	}
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary}, more...)
	out, err := j.command(ctx, j.root, "go", append(args, "./"+pkg)...)
	return binary, out, err
}

// run builds the tests with one mistake, and runs them.
func (j *judge) run(ctx context.Context, m *mutant, tests ...some) (verdict, error) {
	dir, err := os.MkdirTemp(j.dir, "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(filepath.Join(j.root, m.file))
	if err != nil {
		return "", err
	}
	mutated := string(text[:m.start]) + m.with + string(text[m.end:])
	binary, out, err := j.build(ctx, dir, m.pkg, map[string][]byte{m.file: []byte(mutated)})
	if ctx.Err() != nil {
		return "", ctx.Err()
	} else if err != nil {
		if !bytes.Contains(out, []byte(m.pkg)) && !strings.Contains(string(out), "# ") {
			return "", fmt.Errorf("go test -c: %w: %.400s", err, out)
		}
		return unbuilt, nil
	}
	if len(tests) == 0 {
		tests = []some{{limit: j.timeout}}
	}
	return j.judge(ctx, m.pkg, binary, tests)
}

// judge runs tests until one fails, and those that fail again: what fails now and then is noticed only
// sometimes.
func (j *judge) judge(ctx context.Context, pkg, binary string, tests []some) (verdict, error) {
	for range max(1, j.lives) {
		for _, t := range tests {
			good, who := j.once(ctx, pkg, binary, t)
			if ctx.Err() != nil {
				return "", ctx.Err()
			} else if good {
				continue
			}
			if who != "" {
				t.pattern = "^" + who + "$"
			}
			for i := 1; i < j.kills && who != late && !good; i++ {
				if good, _ = j.once(ctx, pkg, binary, t); ctx.Err() != nil {
					return "", ctx.Err()
				}
			}
			if !good {
				return killed, nil
			}
		}
	}
	return survived, nil
}

// late is in the place of a test that failed if the tests did not end in time.
const late = "late"

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// once runs tests, and says which one failed if that is known.
func (j *judge) once(ctx context.Context, pkg, binary string, t some, more ...string) (good bool, who string) {
	limit, cancel := context.WithTimeout(ctx, t.limit+time.Second) // the program itself comes first
	defer cancel()
	args := append([]string{"-test.short", "-test.failfast", "-test.timeout", t.limit.String()}, more...)
	if t.pattern != "" {
		args = append(args, "-test.run", t.pattern)
	}
	if t.skip != "" {
		args = append(args, "-test.skip", t.skip)
	}
	name, args := bounded(binary, args)
	out, err := j.watched(limit, t.idle, filepath.Join(j.root, pkg), name, args...)
	if err == nil {
		return true, ""
	}
	if limit.Err() != nil || errors.Is(err, errIdle) || bytes.Contains(out, []byte("panic: test timed out after")) {
		return false, late
	}
	if m := failed.FindSubmatch(out); m != nil {
		who = string(m[1])
	}
	return false, who
}

// command runs a program, and all that it starts ends with it.
func (j *judge) command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	return j.watched(ctx, 0, dir, name, args...)
}

// watched ends a program also when it has done nothing for so long; 0: never.
func (j *judge) watched(ctx context.Context, idle time.Duration, dir, name string, args ...string) ([]byte, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.WaitDelay = time.Second
	ownGroup(c)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return nil, err
	}
	if idle == 0 {
		err := c.Wait()
		return out.Bytes(), err
	}
	watching, done := context.WithCancel(ctx)
	var watch sync.WaitGroup
	hung := false
	watch.Go(panics.Contain(nil, nil, func() {
		if hung = awaitIdle(watching, c.Process.Pid, idle); hung {
			stop()
		}
	}))
	err := c.Wait()
	done()
	watch.Wait()
	if hung {
		err = errors.Join(errIdle, err)
	}
	return out.Bytes(), err
}

// errIdle means that a program waited for what never comes.
var errIdle = errors.New("it does nothing any more")

// write writes a program. No process may be born meanwhile: it would have the file open, and Linux runs
// no program that somebody can write.
func write(name string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return errors.Join(os.WriteFile(name, program, 0o700), os.Chmod(name, 0o700))
}
