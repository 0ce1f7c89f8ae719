package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/lab/child"
	"github.com/chivenet/chive/lab/ctor"
	"github.com/chivenet/chive/lab/measure"
	"github.com/chivenet/chive/lab/socksclient"
	"github.com/chivenet/chive/lab/target"
)

// RelayPlan says how to measure Chive's relays: C tor's client uses a path of
// C tor's relays, and then one of Chive's, in one network and one run.
type RelayPlan struct {
	// Program is chive's binary, which is run as "chive relay".
	Program string
	// Tor is C tor's program; empty: "tor" in PATH.
	Tor string
	// Schedulers are C tor's to compare with: "Vanilla", or "KIST".
	Schedulers []string
	// Measure is what is measured of each path.
	Measure measure.Plan
	// Flags are further flags of "chive relay".
	Flags []string
	// Log hears what the relays log; nil: nobody.
	Log io.Writer
	// Progress is told what is being done; may be nil.
	Progress func(string)
}

// RelayReport is what came out.
type RelayReport struct {
	Reports []*measure.Report `json:"reports"` // C tor's first, by scheduler; Chive's with each client
	Goals   []Goal            `json:"goals,omitempty"`
}

// Relay measures relays.
func Relay(ctx context.Context, p RelayPlan) (*RelayReport, error) {
	if p.Progress == nil {
		p.Progress = func(string) {}
	}
	out := &RelayReport{}
	for _, s := range p.Schedulers {
		if err := p.network(ctx, s, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// relayNet is a network of C tor with three of Chive's relays in it.
type relayNet struct {
	*RelayPlan
	dir    string
	tor    *ctor.Network
	target *target.Target
	relays []*child.Process
}

func (p *RelayPlan) network(ctx context.Context, scheduler string, out *RelayReport) (err error) {
	n := &relayNet{RelayPlan: p}
	if n.dir, err = os.MkdirTemp("", "chive-bench-"); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer os.RemoveAll(n.dir)
	if n.target, err = target.Start(); err != nil {
		return err
	}
	defer n.target.Close()
	p.Progress("starting a network of C tor, " + scheduler)
	opts := ctor.Options{Relays: 2, Exits: 1, TorPath: p.Tor, VotingInterval: 10 * time.Second}
	if scheduler != "KIST" {
		opts.Scheduler = scheduler
	}
	if n.tor, err = ctor.Start(ctx, opts); err != nil {
		return err
	}
	defer n.tor.Close()
	defer func() {
		for _, r := range n.relays {
			r.Kill()
		}
	}()
	chive, err := n.startRelays(ctx)
	if err != nil {
		return err
	}
	stock := []*ctor.Node{n.tor.Node("relay0"), n.tor.Node("relay1"), n.tor.Node("exit0")}
	var pids [2][]int
	for i := range stock {
		pids[0], pids[1] = append(pids[0], stock[i].PID()), append(pids[1], n.relays[i].PID())
	}
	var got [2]*measure.Report
	for i, path := range [2][]*ctor.Node{stock, chive} {
		name := [2]string{"C tor relays, " + scheduler, "Chive relays, C tor client, " + scheduler}[i]
		p.Progress("measuring: " + name)
		if got[i], err = n.measure(ctx, name, path, pids[i]); err != nil {
			return err
		}
	}
	out.Reports = append(out.Reports, got[:]...)
	out.Goals = append(out.Goals, relayGoals(scheduler, got[0], got[1])...)
	return nil
}

// startRelays runs three of Chive's relays, the last an exit, and waits until
// the authorities list them.
func (n *relayNet) startRelays(ctx context.Context) ([]*ctor.Node, error) {
	file, err := n.tor.WriteNetworkFile()
	if err != nil {
		return nil, err
	}
	var nodes []*ctor.Node
	var bandwidths strings.Builder
	for i, name := range positions {
		args := append([]string{"relay", "--network", file, "--data-dir", filepath.Join(n.dir, name), "--nickname", "chive" + name,
			"--orport", "127.0.0.1:0", "--assume-reachable", "--shutdown-wait", "-1s"}, n.Flags...)
		if i == 2 {
			args = append(args, "--exit-private", "--exit-policy", "accept *:*", "--nameserver", n.target.Nameserver().String())
		}
		r, said, err := child.Start(ctx, n.Log, n.Program, args...)
		if err != nil {
			return nil, err
		}
		n.relays = append(n.relays, r)
		rsa, _, _ := strings.Cut(said["fingerprint"], " ")
		id, err := ident.ParseRSAID(rsa)
		if err != nil {
			return nil, fault.New(fault.Local, "chive relay says %q: %w", said["fingerprint"], err)
		}
		nodes = append(nodes, &ctor.Node{Name: "chive" + name, ID: ident.RelayID{RSA: id}})
		fmt.Fprintf(&bandwidths, "node_id=$%s bw=10000 nick=chive%s\n", id, name)
	}
	// A bandwidth scanner would find the new relays.
	f, err := os.OpenFile(filepath.Join(n.tor.Dir, "bandwidths"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(bandwidths.String())
		f.Close()
	}
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	n.Progress("waiting for the consensus to list Chive's relays")
	c, err := n.tor.Node("auth0").Control(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, node := range nodes {
		for {
			if s, err := c.GetInfo(ctx, "ns/id/"+node.ID.RSA.String()); err == nil && strings.Contains(s, "Fast") {
				break
			}
			select {
			case <-ctx.Done():
				return nil, fault.New(fault.Timeout, "the consensus does not list %s", node.Name)
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	return nodes, nil
}

// measure has a client of C tor use one circuit over the path. It is told which,
// for it would choose no guard that has run for a minute only.
func (n *relayNet) measure(ctx context.Context, name string, path []*ctor.Node, pids []int) (*measure.Report, error) {
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
	circ, err := c.Extend(ctx, path...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	attaching := make(chan struct{})
	go func() { defer close(attaching); attach(ctx, c, circ) }()
	defer func() { cancel(); <-attaching }()
	s := measure.Subject{Name: name, Dial: socksclient.Dialer{Proxy: client.SOCKS.String()}.DialContext,
		Processes: []measure.Process{{Name: "client", PID: client.PID()}}}
	for i, pid := range pids {
		s.Processes = append(s.Processes, measure.Process{Name: positions[i], PID: pid})
	}
	return measure.Run(ctx, s, n.target, n.Measure)
}

// attach puts every stream on the circuit until ctx is done.
func attach(ctx context.Context, c *ctor.Control, circ string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		streams, err := c.Streams(ctx)
		if err != nil {
			continue // the client ends
		}
		for _, s := range streams {
			if s.Status == "NEW" || s.Status == "DETACHED" {
				// A stream that is gone, or a circuit not yet built: seen at the next tick.
				_, _ = c.Command(ctx, "ATTACHSTREAM "+s.ID+" "+circ)
			}
		}
	}
}

// relayGoals holds a path of Chive's relays to one of C tor's.
func relayGoals(scheduler string, tor, chive *measure.Report) []Goal {
	var out []Goal
	for i, c := range chive.Throughput {
		t := tor.Throughput[i]
		for k := range c.CPU {
			if k == 0 || k >= len(t.CPU) {
				continue // the client is C tor's in both
			}
			what := fmt.Sprintf("%s CPU, %d %s, us/cell (%s)", c.CPU[k].Process, c.Streams, c.Direction, scheduler)
			out = append(out, ratio(what, c.CPU[k].MicrosPerCell, t.CPU[k].MicrosPerCell, 1.0/3, false))
		}
	}
	return out
}
