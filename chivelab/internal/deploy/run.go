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
	// ready waits until the role's program has printed "ready". That it ends before is an error.
	ready(ctx context.Context) error
	// wait waits until the role's program has ended. The error says how, if that was not as it should be.
	wait(ctx context.Context) error
	// remove ends the program, and removes all that is left on the machine.
	remove(ctx context.Context) error
}

// Times of a run.
const (
	look        = 200 * time.Millisecond // between two looks at a program
	readyTime   = 3 * time.Minute        // until a program is ready: keys take long on a slow board
	removeTime  = 2 * time.Minute
	measureTime = 10 * time.Minute // beside the longest time of each circuit
)

// Run is a run of an inventory.
type Run struct {
	Inventory *Inventory
	Out       string           // directory of the results
	Say       func(string)     // hears of each step
	boards    map[string]board // by the node's name
	prepared  func() error     // called when all boards are prepared; may be nil
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
	if r.prepared != nil {
		if err := r.prepared(); err != nil {
			return nil, err
		}
	}
	r.say("the directory makes its keys")
	directory := r.boards[r.Inventory.Node(Directory).Name]
	network, err := directory.run(ctx, r.Inventory.keysCommand(directory.dir()))
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%s: the directory's keys: %w", r.place(r.Inventory.Node(Directory)), err)
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
		return fault.New(fault.KindOf(err), "%s: %w", r.place(n), err)
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
				errs[i] = fault.New(fault.KindOf(err), "%s: %w", r.place(n), err)
			}
		})
	}
	doing.Wait()
	return errors.Join(errs...)
}

// ready waits until a node's program has printed "ready".
func (r *Run) ready(ctx context.Context, n *Node) error {
	try, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := r.boards[n.Name].ready(try); err != nil {
		return r.printed(ctx, n, "is not ready", err)
	}
	return nil
}

// printed adds to a node's error what its program has printed last.
func (r *Run) printed(ctx context.Context, n *Node, what string, err error) error {
	err = fault.New(fault.KindOf(err), "%s %s: %w", r.place(n), what, err)
	if ctx.Err() != nil {
		return err
	}
	out, err2 := r.boards[n.Name].get(ctx, outputName)
	if err2 != nil {
		return errors.Join(err, err2)
	}
	return fault.New(fault.KindOf(err), "%w\n%s", err, tail(out))
}

// measured waits until the client has ended. That another node's program ends before is an error: what the client
// would find then is nothing.
func (r *Run) measured(ctx context.Context) error {
	longest := measureTime + time.Duration(r.Inventory.Circuits+warmUp)*time.Duration(len(r.Inventory.Handshakes))*circuitTime
	waits, cancel := context.WithTimeout(ctx, longest)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	type end struct {
		node *Node
		err  error
	}
	ends := make(chan end, len(r.Inventory.Nodes))
	for i := range r.Inventory.Nodes {
		n := &r.Inventory.Nodes[i]
		waiting.Go(func() { ends <- end{n, r.boards[n.Name].wait(waits)} })
	}
	e := <-ends
	switch {
	case waits.Err() != nil:
		return fault.Ended(waits, "the client had not ended: %w", context.Cause(waits))
	case e.node.Role != Client && e.err == nil:
		return r.printed(ctx, e.node, "has ended", errors.New("the client was not done"))
	case e.node.Role != Client:
		return r.printed(ctx, e.node, "failed while the client measured", e.err)
	case e.err != nil:
		return r.printed(ctx, e.node, "failed", fault.Wrap(fault.Network, e.err))
	}
	return nil
}

// collect waits for the client's end, and fetches the results.
func (r *Run) collect(ctx context.Context) (*Report, error) {
	if err := r.measured(ctx); err != nil {
		return nil, err
	}
	b := r.boards[r.Inventory.Node(Client).Name]
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
	if err := rep.check(r.Inventory); err != nil {
		return nil, fault.New(fault.Protocol, "%s: its report: %w", r.place(r.Inventory.Node(Client)), err)
	}
	return rep, nil
}

// removeAll removes all from the boards, also when ctx has ended.
func (r *Run) removeAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	return r.each(func(n *Node, b board) error { return b.remove(ctx) })
}

// place names a node, where the inventory has it, and its board.
func (r *Run) place(n *Node) string {
	at := r.Inventory.place(n)
	if b, ok := r.boards[n.Name].(interface{ where() string }); ok {
		at += " (" + b.where() + ")"
	}
	return at
}

func (r *Run) say(format string, args ...any) {
	if r.Say != nil {
		r.Say(fmt.Sprintf(format, args...))
	}
}
