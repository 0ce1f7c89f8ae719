// Command mutants tries whether the tests would notice mistakes: it makes small ones in a package, one at
// a time, and runs the package's own tests. See CONTRIBUTING.md, "Mistakes that the tests must notice".
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// file has the survivors; state is where a run that was interrupted goes on from.
const (
	file  = "internal/tools/mutants/survivors.txt"
	state = "bin/mutants"
)

type options struct {
	root    string
	pkgs    string        // directories, between spaces or commas; empty: those that were run before
	since   string        // a commit: only what has changed since then
	sample  int           // so many, chosen at random; 0: all
	seed    string        // of the choice
	most    time.Duration // ends then, with what was tried by then
	timeout time.Duration
	jobs    int
	update  bool
}

func main() {
	var o options
	flag.StringVar(&o.root, "dir", ".", "the repository's `DIR`")
	flag.StringVar(&o.pkgs, "pkg", "", "`DIRS` of packages (default: those that were run before)")
	flag.StringVar(&o.since, "since", "", "only the files that have changed since this `COMMIT`")
	flag.IntVar(&o.sample, "sample", 0, "try this `NUMBER` of mistakes, chosen at random")
	flag.StringVar(&o.seed, "seed", "", "the choice of --sample depends on this `TEXT`")
	flag.DurationVar(&o.most, "time", 0, "end after this `TIME`, with what was tried by then")
	flag.DurationVar(&o.timeout, "timeout", time.Minute, "`TIME` of a package's tests; a mistake that takes longer is noticed")
	flag.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0), "`NUMBER` of mistakes at a time")
	flag.BoolVar(&o.update, "update", false, "write the survivors of packages that were run as a whole")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, &o); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries mistakes, and fails if one survives that the file does not have.
func run(ctx context.Context, w io.Writer, o *options) (err error) {
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	if o.most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.most)
		defer cancel()
	}
	known, err := readSurvivors(filepath.Join(o.root, file))
	if err != nil {
		return err
	}
	pkgs := strings.FieldsFunc(o.pkgs, func(r rune) bool { return r == ' ' || r == ',' })
	if len(pkgs) == 0 {
		for pkg, run := range known.run {
			if run {
				pkgs = append(pkgs, pkg)
			}
		}
		slices.Sort(pkgs)
	}
	changed, err := o.changed(ctx)
	if err != nil {
		return err
	}
	var all []*tried
	for _, pkg := range pkgs {
		pkg = strings.TrimPrefix(filepath.ToSlash(filepath.Clean(pkg)), "./")
		list, err := mutantsOf(o.root, pkg)
		if err != nil {
			return err
		}
		past, err := openPast(o.root, pkg)
		if err != nil {
			return err
		}
		defer past.close()
		for i, m := range list {
			if changed == nil || changed[m.file] {
				all = append(all, &tried{mutant: m, past: past, number: i})
			}
		}
	}
	if o.sample > 0 && o.sample < len(all) {
		seed := sha256.Sum256([]byte(o.seed))
		rng := rand.New(rand.NewChaCha8(seed))
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.sample]
	}
	if err := o.try(ctx, w, all); err != nil && !(o.most > 0 && errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	return o.tell(w, known, all, pkgs, changed == nil && o.sample == 0)
}

// tried is a mutant and what came of it; empty: it was not tried.
type tried struct {
	mutant
	number  int
	past    *past
	verdict verdict
}

// try judges mutants, several at a time. Verdicts of earlier runs count: see past.
func (o *options) try(ctx context.Context, w io.Writer, all []*tried) error {
	if err := os.MkdirAll(filepath.Join(o.root, state), 0o755); err != nil {
		return err
	}
	j := &judge{root: o.root, dir: filepath.Join(o.root, state), timeout: o.timeout}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var mu sync.Mutex // guards w and the files of verdicts
	note := func(t *tried) error {
		mu.Lock()
		defer mu.Unlock()
		if t.verdict == survived {
			fmt.Fprintf(w, "%s: %s\n", t.file, t.key)
		}
		return t.past.note(t.number, t.verdict)
	}
	work := func() {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(all) {
				return
			}
			t := all[i]
			if t.verdict = t.past.of[t.number]; t.verdict != "" {
				continue
			}
			var err error
			if t.verdict, err = j.run(ctx, &t.mutant); err == nil {
				err = note(t)
			}
			if err != nil {
				stop(err)
			}
		}
	}
	var workers sync.WaitGroup
	for range max(1, o.jobs) {
		workers.Go(panics.Contain(nil, func(err error) { stop(err) }, work))
	}
	workers.Wait()
	return context.Cause(ctx)
}

// tell says how many mistakes were noticed, and writes or compares the survivors.
func (o *options) tell(w io.Writer, known *survivors, all []*tried, pkgs []string, whole bool) error {
	count := map[verdict]int{}
	found := map[string]map[key]int{}
	complete := map[string]bool{}
	for _, pkg := range pkgs {
		found[pkg], complete[pkg] = map[key]int{}, whole
	}
	for _, t := range all {
		count[t.verdict]++
		switch t.verdict {
		case survived:
			found[t.pkg][t.key]++
		case "":
			complete[t.pkg] = false
		}
	}
	fmt.Fprintf(w, "%d mistakes: the compiler notices %d, the tests %d, nobody %d; %d were not tried\n",
		len(all), count[unbuilt], count[killed], count[survived], count[""])
	fresh := 0
	for _, pkg := range pkgs {
		if o.update && complete[pkg] {
			known.put(pkg, found[pkg])
			continue
		}
		for k, n := range found[pkg] {
			if n > known.of[k] {
				fresh += n - known.of[k]
				fmt.Fprintf(w, "new, %d times: %s\n", n-known.of[k], k)
			}
		}
	}
	if o.update {
		if err := known.write(filepath.Join(o.root, file)); err != nil {
			return err
		}
	}
	if fresh > 0 {
		return fmt.Errorf("no test notices %d mistakes that %s does not have: write the test, or show that the line is needless", fresh, file)
	}
	return nil
}

// changed returns the files that differ from a commit; nil: all count.
func (o *options) changed(ctx context.Context) (map[string]bool, error) {
	if o.since == "" {
		return nil, nil
	}
	c := exec.CommandContext(ctx, "git", "diff", "--name-only", "--diff-filter=d", o.since, "--", "*.go")
	c.Dir = o.root
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("git diff: %w", err)
	}
	files := map[string]bool{}
	for f := range strings.FieldsSeq(string(out)) {
		files[f] = true
	}
	return files, nil
}

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
