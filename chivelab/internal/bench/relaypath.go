package bench

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/socksclient"
)

func (n *relayNet) torPath(ctx context.Context) (*measure.Report, error) {
	return n.withTor(ctx, "C tor relays, "+n.scheduler, n.stock, n.pids[0])
}

func (n *relayNet) mixedPath(ctx context.Context) (*measure.Report, error) {
	return n.withTor(ctx, "Chive relays, C tor client, "+n.scheduler, n.chive, n.pids[1])
}

// subject is a client behind a SOCKS port with the relays of a path. The name of
// the SOCKS user selects the circuit of a connection.
func (n *relayNet) subject(name, socks string, client int, relays []int) measure.Subject {
	circuit := func(i int) measure.Dial {
		return socksclient.Dialer{Proxy: socks, User: circuitUser + strconv.Itoa(i), Pass: "x"}.DialContext
	}
	s := measure.Subject{Name: name, Dial: circuit(0), Circuit: circuit, Processes: []measure.Process{{Name: "client", PID: client}}}
	for i, pid := range relays {
		s.Processes = append(s.Processes, measure.Process{Name: positions[i], PID: pid})
	}
	return s
}

// circuitUser and a number are a SOCKS user's name.
const circuitUser = "circuit"

// withTor makes a client of C tor use circuits over the path. The circuits are
// built by command, because the client would not choose a guard that has run for
// only a minute.
func (n *relayNet) withTor(ctx context.Context, name string, path [3]*ctor.Node, pids []int) (*measure.Report, error) {
	client, err := n.tor.AddClient(ctx, "", "ConfluxEnabled 0", "MaxCircuitDirtiness 1 hour")
	if err != nil {
		return nil, err
	}
	defer client.Kill()
	if err := client.AwaitBootstrap(ctx); err != nil {
		return nil, err
	}
	c, err := client.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetConf(ctx, "__LeaveStreamsUnattached=1"); err != nil {
		return nil, err
	}
	a := &attacher{control: c}
	count := 1 + n.Measure.Loaded
	for _, k := range n.Measure.Circuits {
		count = max(count, k)
	}
	for range count {
		id, err := c.Extend(ctx, path[:]...)
		if err != nil {
			return nil, err
		}
		a.circuits = append(a.circuits, id)
	}
	if err := a.awaitBuilt(ctx); err != nil {
		return nil, err
	}
	events, err := c.Events(ctx, "STREAM")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	attaching := make(chan struct{})
	go func() { defer close(attaching); a.run(ctx, events) }()
	defer func() { cancel(); <-attaching }()
	return measure.Run(ctx, n.subject(name, client.SOCKS.String(), client.PID(), pids), n.target, n.Measure)
}

// attacher puts the streams of a C tor client on circuits.
type attacher struct {
	control  *ctor.Control
	circuits []string
}

func (a *attacher) awaitBuilt(ctx context.Context) error {
	for {
		all, err := a.control.Circuits(ctx)
		if err != nil {
			return err
		}
		built := map[string]bool{}
		for _, c := range all {
			built[c.ID] = c.Status == "BUILT"
		}
		missing := 0
		for _, id := range a.circuits {
			if ready, there := built[id]; !there {
				return fault.New(fault.Network, "circuit %s was not built", id)
			} else if !ready {
				missing++
			}
		}
		if missing == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Timeout, "%d circuits are not built: %w", missing, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// run attaches every new stream to the circuit that its SOCKS user names, until
// ctx is done.
func (a *attacher) run(ctx context.Context, events <-chan ctor.Event) {
	for {
		select {
		case <-ctx.Done():
			return
		case ev, open := <-events:
			if !open {
				return
			}
			s, err := ctor.ParseStream(ev.Rest)
			if err != nil || s.Status != "NEW" {
				continue
			}
			i, err := strconv.Atoi(strings.TrimPrefix(s.Fields["SOCKS_USERNAME"], circuitUser))
			if err != nil || i >= len(a.circuits) {
				continue // not of this measurement
			}
			// It fails if the stream has ended already; its opener gets that
			// error.
			_, _ = a.control.Command(ctx, "ATTACHSTREAM "+s.ID+" "+a.circuits[i])
		}
	}
}

// chivePath makes Chive's client use Chive's relays, as "chive proxy".
func (n *relayNet) chivePath(ctx context.Context) (*measure.Report, error) {
	args := []string{"proxy", "--network", n.file, "--data-dir", filepath.Join(n.dir, "proxy"), "--socks", "127.0.0.1:0",
		"--strict-nodes", "--conflux", "off"}
	for i, flag := range []string{"--entry-nodes", "--middle-nodes", "--exit-nodes"} {
		args = append(args, flag, n.chive[i].ID.RSA.String())
	}
	p, said, err := child.Start(ctx, n.Log, n.Program, args...)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	return measure.Run(ctx, n.subject("Chive relays and client", said["socks"], p.PID(), n.pids[1]), n.target, n.Measure)
}
