// Package bench runs the project's comparisons: Chive's programs and C tor's
// in the same work on the same machine, in one run.
package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/lab/child"
	"github.com/chivenet/chive/lab/ctor"
	"github.com/chivenet/chive/lab/measure"
	"github.com/chivenet/chive/lab/socksclient"
	"github.com/chivenet/chive/lab/target"
)

// ClientPlan says how to measure Chive's client.
type ClientPlan struct {
	// Program is chive's binary, which is run as "chive proxy".
	Program string
	// NetworkFile is the network to measure on; its exits must reach this
	// machine's loopback. Empty: a network of C tor is made (three authorities,
	// two relays, an exit, the Vanilla scheduler), and C tor's client is measured
	// on the same three relays before Chive's.
	NetworkFile string
	// Tor is C tor's program; empty: "tor" in PATH.
	Tor string
	// Measure is what is measured of each client.
	Measure measure.Plan
	// Builds is how many circuits are built for the build time.
	Builds int
	// Flags are further flags of "chive proxy", such as "--cgo=off".
	Flags []string
	// Progress is told what is being done; may be nil.
	Progress func(string)
}

// ClientReport is what came out.
type ClientReport struct {
	Network string            `json:"network"`
	Reports []*measure.Report `json:"reports"` // C tor's client first, if it was measured
	Goals   []Goal            `json:"goals,omitempty"`
}

// clientBench is one run.
type clientBench struct {
	*ClientPlan
	dir     string
	target  *target.Target
	network *netdir.Network
	file    string
	tor     *ctor.Network // nil when the network was given
	path    []*ctor.Node  // the relays to use: guard, middle, exit
}

// Client measures Chive's client, and beside it C tor's if the network is made
// here.
func Client(ctx context.Context, p ClientPlan) (*ClientReport, error) {
	dir, err := os.MkdirTemp("", "chive-bench-")
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer os.RemoveAll(dir)
	if p.Progress == nil {
		p.Progress = func(string) {}
	}
	b := &clientBench{ClientPlan: &p, dir: dir}
	if b.target, err = target.Start(); err != nil {
		return nil, err
	}
	defer b.target.Close()
	if b.file = p.NetworkFile; b.file == "" {
		if err := b.makeNetwork(ctx); err != nil {
			return nil, err
		}
		defer b.tor.Close()
	}
	text, err := os.ReadFile(b.file)
	if err != nil {
		return nil, fault.New(fault.Config, "network file: %w", err)
	}
	if b.network, err = netfile.Parse(b.file, text); err != nil {
		return nil, err
	}
	out := &ClientReport{Network: b.network.Name}
	var subjects []func(context.Context) (*measure.Report, error)
	if b.tor != nil {
		out.Network = b.tor.String()
		subjects = append(subjects, b.measureTor)
	}
	for _, s := range append(subjects, b.measureChive) {
		r, err := s(ctx)
		if err != nil {
			return nil, err
		}
		out.Reports = append(out.Reports, r)
	}
	if b.tor != nil {
		out.Goals = clientGoals(out.Reports[0], out.Reports[1])
	}
	return out, nil
}

func (b *clientBench) makeNetwork(ctx context.Context) error {
	b.Progress("starting a network of C tor")
	nw, err := ctor.Start(ctx, ctor.Options{Relays: 2, Exits: 1, Scheduler: "Vanilla", TorPath: b.Tor})
	if err != nil {
		return err
	}
	b.tor = nw
	b.path = []*ctor.Node{nw.Node("relay0"), nw.Node("relay1"), nw.Node("exit0")}
	if b.file, err = nw.WriteNetworkFile(); err != nil {
		nw.Close()
	}
	return err
}

// subject is a client behind a SOCKS proxy, with the path's relays beside it.
func (b *clientBench) subject(name, socks string, pid int) measure.Subject {
	s := measure.Subject{Name: name, Dial: socksclient.Dialer{Proxy: socks}.DialContext,
		Processes: []measure.Process{{Name: "client", PID: pid}}}
	for i, n := range b.path {
		s.Processes = append(s.Processes, measure.Process{Name: positions[i], PID: n.PID()})
	}
	return s
}

// positions are the places on a path, in order.
var positions = []string{"guard", "middle", "exit"}

// pinLines makes a C tor client use one path.
func pinLines(path []*ctor.Node) []string {
	// A second leg would need a second path.
	out := []string{"StrictNodes 1", "ConfluxEnabled 0"}
	for i, n := range path {
		out = append(out, fmt.Sprintf("%sNodes $%s", [...]string{"Entry", "Middle", "Exit"}[i], n.ID.RSA))
	}
	return out
}

func (b *clientBench) measureTor(ctx context.Context) (*measure.Report, error) {
	b.Progress("measuring C tor's client")
	n, err := b.tor.AddClient(ctx, "", pinLines(b.path)...)
	if err != nil {
		return nil, err
	}
	defer n.Kill()
	if err := n.AwaitBootstrap(ctx); err != nil {
		return nil, err
	}
	r, err := measure.Run(ctx, b.subject("tor", n.SOCKS.String(), n.PID()), b.target, b.Measure)
	if err != nil {
		return nil, err
	}
	// Circuits as they are asked for and, once it has bootstrapped, no others.
	var builder *ctor.Node
	if r.Bootstrap, builder, err = measure.TorBootstrap(ctx, b.tor, "LearnCircuitBuildTimeout 0"); err != nil {
		return nil, err
	}
	defer builder.Kill()
	if b.Builds == 0 {
		return r, nil
	}
	c, err := builder.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetConf(ctx, "__DisablePredictedCircuits=1"); err != nil {
		return nil, err
	}
	r.Build, err = measure.TorBuilds(ctx, builder, b.path, b.Builds)
	return r, err
}

func (b *clientBench) measureChive(ctx context.Context) (*measure.Report, error) {
	b.Progress("measuring Chive's client")
	cold, p, _, err := b.startChive(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.Drain(); err != nil {
		return nil, err
	}
	warm, p, socks, err := b.startChive(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	r, err := measure.Run(ctx, b.subject("chive", socks, p.PID()), b.target, b.Measure)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%w\nthe proxy said: %s", err, p.LastWords())
	}
	r.Bootstrap = &measure.Bootstrap{Cold: cold, Warm: warm}
	if b.Builds > 0 {
		r.Build, err = b.chiveBuilds(ctx, filepath.Join(b.dir, "builds"))
	}
	return r, err
}

// startChive runs "chive proxy" until it is ready; the data directory is the
// same each time.
func (b *clientBench) startChive(ctx context.Context) (took float64, p *child.Process, socks string, err error) {
	args := append([]string{"proxy", "--network", b.file, "--data-dir", filepath.Join(b.dir, "proxy"), "--socks", "127.0.0.1:0"}, b.Flags...)
	if b.path != nil {
		args = append(args, "--strict-nodes", "--conflux", "off",
			"--entry-nodes", b.path[0].ID.RSA.String(), "--middle-nodes", b.path[1].ID.RSA.String(), "--exit-nodes", b.path[2].ID.RSA.String())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	p, said, err := child.Start(ctx, nil, b.Program, args...)
	return time.Since(began).Seconds(), p, said["socks"], err
}
