package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// board is a machine that a node runs on.
type board interface {
	// dir is the node's directory there.
	dir() string
	// prepare makes the directory, and brings the program there.
	prepare(ctx context.Context) error
	// run runs the program with arguments, and returns what it prints.
	run(ctx context.Context, args []string) ([]byte, error)
	// put writes a file of the directory, get reads one.
	put(ctx context.Context, name string, data []byte) error
	get(ctx context.Context, name string) ([]byte, error)
	// start starts the role's program. What it prints goes to outputName.
	start(ctx context.Context, args []string) error
	// running tells whether the role's program runs, and how it ended if it does not.
	running(ctx context.Context) (bool, error)
	// remove ends the program, and removes all that is left on the machine.
	remove(ctx context.Context) error
}

// Times of a run.
const (
	look       = 200 * time.Millisecond // between two looks at a program
	readyTime  = 3 * time.Minute        // until a program is ready: keys take long on a slow board
	removeTime = time.Minute
)

// Run is a run of an inventory.
type Run struct {
	Inventory *Inventory
	Out       string           // directory of the results
	Say       func(string)     // hears of each step
	boards    map[string]board // by the node's name
	measuring func()           // called when all nodes are ready; may be nil
}

// Do puts the nodes on their boards, waits for the client, and collects what it and the monitor found. Whatever happens,
// it removes all from the boards.
func (r *Run) do(ctx context.Context) (rep *Report, err error) {
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer func() { err = errors.Join(err, r.removeAll(ctx)) }()
	if err := r.each(func(n *Node, b board) error { return b.prepare(ctx) }); err != nil {
		return nil, err
	}
	r.say("the directory makes its keys")
	directory := r.boards[r.Inventory.Node(Directory).Name]
	network, err := directory.run(ctx, r.Inventory.keysCommand(directory.dir()))
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "the directory's keys: %w", err)
	}
	if err := r.each(func(n *Node, b board) error { return b.put(ctx, networkName, network) }); err != nil {
		return nil, err
	}
	r.say("the nodes start")
	for _, role := range Roles[:len(Roles)-1] {
		if err := r.start(ctx, role); err != nil {
			return nil, err
		}
	}
	for _, role := range Roles[:len(Roles)-1] {
		if err := r.ready(ctx, r.Inventory.Node(role)); err != nil {
			return nil, err
		}
	}
	r.say("all nodes are ready; the client measures")
	if err := r.start(ctx, Client); err != nil {
		return nil, err
	}
	if r.measuring != nil {
		r.measuring()
	}
	return r.collect(ctx)
}

// start starts the program of a role.
func (r *Run) start(ctx context.Context, role Role) error {
	n := r.Inventory.Node(role)
	b := r.boards[n.Name]
	if err := b.start(ctx, r.Inventory.Command(n, b.dir())); err != nil {
		return fault.New(fault.KindOf(err), "%s: %w", n.Name, err)
	}
	return nil
}

// each does something on all boards at the same time.
func (r *Run) each(do func(*Node, board) error) error {
	errs := make([]error, len(r.Inventory.Nodes))
	var doing sync.WaitGroup
	for i := range r.Inventory.Nodes {
		n := &r.Inventory.Nodes[i]
		b := r.boards[n.Name]
		if b == nil {
			continue
		}
		doing.Go(func() {
			if err := do(n, b); err != nil {
				errs[i] = fault.New(fault.KindOf(err), "%s: %w", n.Name, err)
			}
		})
	}
	doing.Wait()
	return errors.Join(errs...)
}

// ready waits until a node's program has printed "ready".
func (r *Run) ready(ctx context.Context, n *Node) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	b := r.boards[n.Name]
	for {
		running, end := b.running(ctx)
		out, err := b.get(ctx, outputName)
		switch {
		case ctx.Err() != nil:
			return fault.Ended(ctx, "%s is not ready: %w", n.Name, context.Cause(ctx))
		case err != nil:
			return fault.New(fault.KindOf(err), "%s: %w", n.Name, err)
		case !running:
			return fault.New(fault.Local, "%s has ended: %w\n%s", n.Name, end, tail(out))
		case hasLine(out, "ready"):
			return nil
		}
		if err := pause(ctx); err != nil {
			return fault.Ended(ctx, "%s is not ready: %w\n%s", n.Name, context.Cause(ctx), tail(out))
		}
	}
}

// collect waits for the client's end, and fetches the results.
func (r *Run) collect(ctx context.Context) (*Report, error) {
	client := r.Inventory.Node(Client)
	b := r.boards[client.Name]
	for {
		running, end := b.running(ctx)
		if ctx.Err() != nil {
			return nil, fault.Ended(ctx, "the client had not ended: %w", context.Cause(ctx))
		}
		if !running && end != nil {
			out, err := b.get(ctx, outputName)
			return nil, errors.Join(fault.New(fault.Network, "%s: %w\n%s", client.Name, end, tail(out)), err)
		}
		if !running {
			break
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	r.say("the client has ended")
	files := map[string][]byte{}
	for name, from := range map[string]board{ReportName: b, SamplesName: b, MetricsName: r.boards[r.Inventory.Node(Monitor).Name]} {
		doc, err := from.get(ctx, resultsName+"/"+name)
		if err == nil {
			err = os.WriteFile(filepath.Join(r.Out, name), doc, 0o644)
		}
		if err != nil {
			return nil, fault.New(fault.Local, "the results: %w", err)
		}
		files[name] = doc
	}
	rep := new(Report)
	if err := json.Unmarshal(files[ReportName], rep); err != nil {
		return nil, fault.New(fault.Local, "the results: %w", err)
	}
	return rep, nil
}

// removeAll removes all from the boards, also when ctx has ended.
func (r *Run) removeAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	return r.each(func(n *Node, b board) error { return b.remove(ctx) })
}

func (r *Run) say(format string, args ...any) {
	if r.Say != nil {
		r.Say(fmt.Sprintf(format, args...))
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fault.Ended(ctx, "%w", context.Cause(ctx))
	case <-time.After(look):
		return nil
	}
}
