package wan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
)

// priority is the nodes' one: what others compute on this machine must not look like a slow network.
const priority = -15

// garbage is how many bytes of it there may be before they are collected all the same.
const garbage = 2 << 30

// hurry gives this process, and all that it starts, priority, if this user may do so. If not, the lateness says what it
// costs.
func hurry() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range tasks { // on Linux each thread has a priority, and new ones that of their parent
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, priority)
		}
	}
}

// all does what is left, with a network for runs of the same seed and relays, and clients for those of the same side.
func (r *Run) all(ctx context.Context, f *results) error {
	hurry()
	// The emulator's threads are many, and each must run at once when a packet comes: none waits for a turn of the runtime.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4 * (r.plan.Relays + r.plan.Clients)))
	// Nor for the collection of garbage, which is made before each run; one makes less than the limit.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(garbage))
	left, tried := r.left(f.runs)
	w := &worker{run: r, file: f, tried: tried, of: len(left)}
	for len(left) > 0 {
		k := 1
		for k < len(left) && left[k].Seed == left[0].Seed && left[k].Side.Relays == left[0].Side.Relays {
			k++
		}
		if err := w.onNetwork(ctx, left[:k]); err != nil {
			if ctx.Err() != nil {
				return fault.Ended(ctx, "%d of %d runs are written; run the same again to go on: %w", w.done, w.of, context.Cause(ctx))
			}
			return err
		}
		left = left[k:]
	}
	return nil
}

// worker does tasks.
type worker struct {
	run            *Run
	file           *results
	tried          map[Task]int
	done, of, late int
	began          time.Time
}

func (w *worker) tell(what string, t Task) {
	p := Progress{What: fmt.Sprintf("%s: seed %d, %v", what, t.Seed, t.Side), Done: w.done, Of: w.of, Late: w.late}
	if w.began.IsZero() {
		w.began = time.Now()
	}
	spent := time.Since(w.began)
	if p.Left = w.run.plan.Estimate()*time.Duration(w.of)/time.Duration(len(w.run.plan.Tasks())) - spent; w.done > 0 {
		p.Left = spent / time.Duration(w.done) * time.Duration(w.of-w.done)
	}
	p.Left = max(p.Left, time.Second)
	w.run.Progress(p)
}

// onNetwork does tasks that have one network.
func (w *worker) onNetwork(ctx context.Context, tasks []Task) (err error) {
	t := tasks[0]
	w.tell("starting relays", t)
	seed := uint64(t.Seed)<<16 + uint64(len(w.run.sessions))
	n, err := startNetwork(ctx, w.run, w.run.plan.Layout(t.Seed), t.Side.Relays, seed, filepath.Join(w.run.Dir, nodesName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	for len(tasks) > 0 {
		k := 1
		for k < len(tasks) && tasks[k].Side == tasks[0].Side {
			k++
		}
		if err := w.onSide(n, tasks[:k]); err != nil {
			return err
		}
		tasks = tasks[k:]
	}
	return nil
}

// onSide does tasks that have the same clients.
func (w *worker) onSide(n *network, tasks []Task) (err error) {
	w.tell("starting clients", tasks[0])
	if err := n.setLoss(0, nil); err != nil {
		return err
	}
	cs, err := n.startClients(n.ctx, tasks[0].Side.Clients)
	if err != nil {
		return n.prefer(err)
	}
	defer func() { err = errors.Join(err, cs.close()) }()
	for _, t := range tasks {
		for w.tried[t] < attempts {
			w.tell(fmt.Sprintf("fetching with %g %% loss", t.Loss*100), t)
			x, answers, err := measure(n, cs, t)
			if err != nil {
				return n.prefer(err)
			}
			w.tried[t]++
			if err := w.file.add(x, n.layout, answers); err != nil {
				return err
			}
			if !x.Late {
				break
			}
			w.late++
		}
		w.done++
	}
	return nil
}

// prefer takes the reason of a node that has ended for that of an error.
func (n *network) prefer(err error) error {
	if cause := context.Cause(n.ctx); cause != nil {
		return fault.New(fault.KindOf(cause), "%w", cause)
	}
	return err
}

// measure does one run.
func measure(n *network, cs *clients, t Task) (x RunResult, answers [][]answer, err error) {
	if err := n.setLoss(t.Loss, cs.hosts()); err != nil {
		return x, nil, err
	}
	select {
	case <-time.After(settle):
	case <-n.ctx.Done():
		return x, nil, context.Cause(n.ctx)
	}
	runtime.GC()
	late, busy := n.net.Lateness(), cpuTime()
	began := time.Now()
	answers, err = cs.measure(n.ctx)
	took := time.Since(began)
	x = RunResult{Task: t, Session: len(n.run.sessions), Took: took, Busy: cpuTime().share(busy), Lateness: n.net.Lateness().Since(late)}
	x.Late = links.Bound{}.Refuse(x.Lateness) != nil
	return x, answers, err
}

// cpu is what all processors of the machine have done, in ticks.
type cpu struct{ idle, all uint64 }

func cpuTime() (c cpu) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return c
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, f := range strings.Fields(line)[1:] {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil || i > 7 { // guests are in the first ones, too
			break
		}
		if c.all += v; i == 3 || i == 4 {
			c.idle += v
		}
	}
	return c
}

// share is the part of the time since then in which they were busy.
func (c cpu) share(then cpu) float64 {
	if c.all == then.all {
		return 0
	}
	return 1 - float64(c.idle-then.idle)/float64(c.all-then.all)
}

// congestion is the kernel's algorithm of TCP's, which all hosts have.
func congestion() string {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
