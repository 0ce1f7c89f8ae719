package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/linktun"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// InNamespaces runs an inventory here: each node in Linux namespaces of its own, behind its link. program is this program,
// or another build of it with the program before it that can run that (an emulator of its processor). If the emulator
// of links was late, the report does not count, and comes with an error that has links.ErrLate.
func InNamespaces(ctx context.Context, inv *Inventory, program []string, out string, say func(string)) (rep *Report, err error) {
	home, err := newHome()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, home.remove()) }()
	nw := links.NewNet(inv.Seed)
	defer nw.Close()
	var before links.Lateness // what nodes do while they start is not measured
	r := &Run{Inventory: inv, Out: out, Say: say, boards: map[string]board{}, measuring: func() { before = nw.Lateness() }}
	for i := range inv.Nodes {
		n := &inv.Nodes[i]
		r.boards[n.Name] = &space{node: n, net: nw, program: program, at: filepath.Join(home.dir, n.Name)}
	}
	rep, err = r.do(ctx)
	late := nw.Lateness().Since(before)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.WriteJSON(filepath.Join(out, LinksName), late, atomicfile.Report); err != nil {
		return nil, err
	}
	return rep, links.Bound{}.Refuse(late)
}

// space is a board in namespaces.
type space struct {
	node    *Node
	net     *links.Net
	program []string
	at      string
	host    *linktun.Host
	output  *os.File
	ended   chan struct{} // closed when the program has ended; nil: it was not started
	end     error         // how it ended, then
}

func (s *space) dir() string { return s.at }

func (s *space) prepare(context.Context) error {
	return fault.Wrap(fault.Local, os.MkdirAll(filepath.Join(s.at, stateName), 0o700))
}

// run needs no network, so it runs outside.
func (s *space) run(ctx context.Context, args []string) ([]byte, error) {
	argv := append(append([]string{}, s.program...), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, tail(exit.Stderr))
	}
	return out, fault.Wrap(fault.Local, err)
}

func (s *space) put(_ context.Context, name string, data []byte) error {
	return fault.Wrap(fault.Local, os.WriteFile(filepath.Join(s.at, name), data, 0o600))
}

func (s *space) get(_ context.Context, name string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(s.at, name))
	return b, fault.Wrap(fault.Local, err)
}

func (s *space) start(_ context.Context, args []string) (err error) {
	if s.output, err = os.Create(filepath.Join(s.at, outputName)); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if s.host, err = linktun.Attach(s.net, s.node.Address, s.node.Access,
		linktun.Command{Args: append(append([]string{}, s.program...), args...), Output: s.output, Congestion: links.Congestion}); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		code, err := s.host.Run(context.Background()) // until remove
		if err == nil && code != 0 {
			err = fault.New(fault.Local, "exit code %d", code)
		}
		s.end = err
	}()
	return nil
}

func (s *space) ready(ctx context.Context) error {
	err := awaitReady(ctx, filepath.Join(s.at, outputName), s.ended)
	if err != nil && ctx.Err() == nil {
		select {
		case <-s.ended:
			return errors.Join(err, s.end)
		default:
		}
	}
	return err
}

func (s *space) wait(ctx context.Context) error {
	select {
	case <-s.ended:
		return s.end
	case <-ctx.Done():
		return fault.Ended(ctx, "%w", context.Cause(ctx))
	}
}

func (s *space) remove(context.Context) error {
	if s.host != nil {
		s.host.Close()
	}
	if s.ended != nil {
		<-s.ended
	}
	if s.output != nil {
		return fault.Wrap(fault.Local, s.output.Close())
	}
	return nil
}
