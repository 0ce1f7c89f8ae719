// Command mutants tries whether the tests would notice mistakes: it makes small ones in a package, one at
// a time, and runs the package's own tests. See CONTRIBUTING.md, "Mistakes that the tests must notice".
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	pkgs := o.named()
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
	if err := o.try(ctx, w, known, all); err != nil && !(o.most > 0 && errors.Is(err, context.DeadlineExceeded)) {
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

// few is how many mistakes of a package are each tried by a build of its own: fewer than that are not worth
// a plan.
const few = 16

// again is how often an answer must come before it counts, where it matters that it is always the same. For
// the file, a mistake is noticed if the tests always notice it. Compared with the file, a mistake is a
// survivor if they never do. So a test that notices only sometimes makes no run fail.
const again = 3

// try judges mutants, several at a time. Verdicts of earlier runs count: see past.
func (o *options) try(ctx context.Context, w io.Writer, known *survivors, all []*tried) error {
	if err := os.MkdirAll(filepath.Join(o.root, state), 0o755); err != nil {
		return err
	}
	left := map[string][]*tried{}
	var order []string
	for _, t := range all {
		if t.verdict = t.past.of[t.number]; t.verdict == "" {
			if left[t.pkg] == nil {
				order = append(order, t.pkg)
			}
			left[t.pkg] = append(left[t.pkg], t)
		}
	}
	var single []*tried
	for _, pkg := range order {
		list := left[pkg]
		if len(list) < few {
			single = append(single, list...)
			continue
		}
		began := time.Now()
		j := o.judge(false)
		p, err := newPlan(ctx, j, pkg)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: %d mistakes, %d tests (%s unfit), %s without a mistake, begins after %s\n", pkg, len(list), len(p.tests), cmp.Or(p.unfit(), "none"), p.together.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		err = o.each(ctx, w, list, func(t *tried) (verdict, error) {
			q := *p
			q.judge = o.judge(known.of[t.key] == 0)
			return q.try(ctx, &p.mutants[t.number])
		})
		p.close()
		if err != nil {
			return err
		}
	}
	return o.each(ctx, w, single, func(t *tried) (verdict, error) { return o.judge(known.of[t.key] == 0).run(ctx, &t.mutant) })
}

// judge returns one for a mistake that may be new.
func (o *options) judge(fresh bool) *judge {
	j := &judge{root: o.root, dir: filepath.Join(o.root, state), timeout: o.timeout, jobs: o.jobs, kills: 1, lives: 1}
	if o.update {
		j.kills = again
	} else if fresh {
		j.lives = again
	}
	return j
}

// each judges mutants, several at a time.
func (o *options) each(ctx context.Context, w io.Writer, list []*tried, judge func(*tried) (verdict, error)) error {
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
			if i >= len(list) {
				return
			}
			var err error
			if list[i].verdict, err = judge(list[i]); err == nil {
				err = note(list[i])
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

// named returns the packages that the user names, as the survivors' file writes them.
func (o *options) named() []string {
	pkgs := strings.FieldsFunc(o.pkgs, func(r rune) bool { return r == ' ' || r == ',' })
	for i, pkg := range pkgs {
		pkgs[i] = filepath.ToSlash(filepath.Clean(pkg))
	}
	return pkgs
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
	if o.update {
		now, err := readSurvivors(filepath.Join(o.root, file)) // it may have changed meanwhile
		if err != nil {
			return err
		}
		known = now
	}
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
