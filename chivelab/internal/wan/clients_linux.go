package wan

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"

	"github.com/chivenet/chive/chivelab/internal/linktun"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// clients are all clients of one program in a network.
type clients struct {
	network *network
	all     []*client
	running sync.WaitGroup
}

// client is a client's process.
type client struct {
	*host
	tell *os.File      // its input
	said chan string   // lines of its output; closed at its end
	read *os.File      // its output
	done chan struct{} // closed when nobody takes lines any more
}

// startClients starts clients of a program, and returns when each has fetched a page over its path.
func (n *network) startClients(ctx context.Context, program Program) (cs *clients, err error) {
	cs = &clients{network: n}
	defer func() {
		if err != nil {
			cs.close()
			cs = nil
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for i, c := range n.layout.Clients {
		x, err := cs.start(i, c, program)
		if err != nil {
			return cs, err
		}
		cs.all = append(cs.all, x)
		w := n.workOf(c, program)
		if err := writeTorrc(n, c, program); err != nil {
			return cs, err
		}
		b, err := json.Marshal(w)
		if err != nil {
			return cs, fault.Wrap(fault.Local, err)
		}
		if _, err := x.tell.Write(append(b, '\n')); err != nil {
			return cs, fault.New(fault.Local, "%s: %w", c.Name, err)
		}
	}
	for _, x := range cs.all {
		line, err := x.next(ctx)
		if err != nil {
			return cs, err
		}
		if line != sayReady {
			return cs, fault.New(fault.Local, "%s says %q", x.name, line)
		}
	}
	return cs, nil
}

// clientDir is where a client keeps its files. Both programs' clients may have been in one network.
func (n *network) clientDir(c Client, program Program) string {
	return n.dirOf(string(program) + "-" + c.Name)
}

func writeTorrc(n *network, c Client, program Program) error {
	dir := n.clientDir(c, program)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if program != Tor {
		return nil
	}
	return fault.Wrap(fault.Local, os.WriteFile(dir+".torrc", lines(n.torClient(dir, c)), 0o600))
}

func (n *network) workOf(c Client, program Program) work {
	dir := n.clientDir(c, program)
	w := n.run.plan.workOf(c)
	if program == Chive {
		w.Program, w.Ready = n.chiveClient(dir, c), "ready"
	} else {
		w.Program, w.Ready = n.torCommand(dir+".torrc"), "Bootstrapped 100%"
	}
	return w
}

// start starts a client's process.
func (cs *clients) start(i int, c Client, program Program) (_ *client, err error) {
	n := cs.network
	a := access(c.Region, clientRate, 0)
	x := &client{host: &host{name: c.Name, access: a, output: n.clientDir(c, program) + ".out", ended: make(chan struct{})},
		said: make(chan string), done: make(chan struct{})}
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	in, tell, err := os.Pipe()
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	x.tell, files = tell, append(files, in)
	read, out, err := os.Pipe()
	if err != nil {
		tell.Close()
		return nil, fault.Wrap(fault.Local, err)
	}
	x.read, files = read, append(files, out)
	x.Host, err = linktun.Attach(n.net, clientAddr(i), a, linktun.Command{Args: append(append([]string{}, n.run.Self...), "client"), Input: in, Output: out, Congestion: n.run.Congestion})
	if err != nil {
		tell.Close()
		read.Close()
		return nil, fault.New(fault.KindOf(err), "%s: %w", c.Name, err)
	}
	cs.running.Go(panics.Contain(nil, n.fail, func() {
		defer close(x.ended)
		_, _ = x.Run(n.ctx) // the end of its output tells
	}))
	cs.running.Go(panics.Contain(nil, n.fail, func() {
		defer close(x.said)
		for s := bufio.NewScanner(read); s.Scan(); {
			select {
			case x.said <- s.Text():
			case <-x.done:
				return
			}
		}
	}))
	return x, nil
}

// next returns the next line that a client says.
func (x *client) next(ctx context.Context) (string, error) {
	select {
	case line, ok := <-x.said:
		if !ok {
			return "", fault.New(fault.Local, "%s has ended", x.name)
		}
		return line, nil
	case <-ctx.Done():
		return "", fault.New(fault.Timeout, "%s says nothing: %w", x.name, context.Cause(ctx))
	}
}

// measure has all clients make their requests, and returns what became of these by client.
func (cs *clients) measure(ctx context.Context) ([][]answer, error) {
	p := cs.network.run.plan
	ctx, cancel := context.WithTimeout(ctx, p.Window+p.Patience+startTime)
	defer cancel()
	for _, x := range cs.all {
		if _, err := x.tell.WriteString(sayGo + "\n"); err != nil {
			return nil, fault.New(fault.Local, "%s: %w", x.name, err)
		}
	}
	out := make([][]answer, len(cs.all))
	for i, x := range cs.all {
		for {
			line, err := x.next(ctx)
			if err != nil {
				return nil, err
			}
			if line == sayOver {
				break
			}
			a, err := readAnswer(line, len(cs.network.layout.Clients[i].Requests))
			if err != nil {
				return nil, fault.New(fault.Local, "%s: %w", x.name, err)
			}
			out[i] = append(out[i], a)
		}
	}
	return out, nil
}

// hosts are those of the clients.
func (cs *clients) hosts() (out []*host) {
	for _, x := range cs.all {
		out = append(out, x.host)
	}
	return out
}

// close ends all clients.
func (cs *clients) close() error {
	var err error
	for _, x := range cs.all {
		close(x.done)
		x.Close()
		err = errors.Join(err, x.tell.Close(), x.read.Close())
	}
	cs.running.Wait()
	return fault.Wrap(fault.Local, err)
}
