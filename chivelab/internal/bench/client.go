// Package bench runs the project's comparisons: Chive's programs and C tor's do the
// same work on the same machine, in one run.
package bench

import (
	"context"
	"os"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
)

// ClientPlan says how to measure Chive's client.
type ClientPlan struct {
	// Program is chive's binary, which is run as "chive proxy".
	Program string
	// NetworkFile is the network to measure on; its exits must reach this
	// machine's loopback. Empty: a network of C tor is made (three authorities,
	// two relays, an exit, the Vanilla scheduler), and C tor's client is measured
	// on the same three relays, in turns with Chive's.
	NetworkFile string
	// Tor is C tor's program; empty: "tor" in PATH.
	Tor string
	// Conflux gives both clients conflux sets of two legs, which share only the exit. The
	// network is made for that.
	Conflux bool
	// Measure is what is measured of each client.
	Measure measure.Plan
	// Builds is how many circuits are built for the build time.
	Builds int
	// Flags are further flags of "chive proxy", such as "--cgo=off".
	Flags []string
	// Progress is called with the present step; may be nil.
	Progress func(string)
}

// ClientReport is the result of Client.
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
	second  []*ctor.Node  // guard and middle of the second leg; nil without conflux
}

// Client measures Chive's client, and also C tor's, if the network is made here.
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
	if b.tor != nil {
		out.Network = b.tor.String()
	}
	if b.Conflux {
		out.Network += ", conflux"
	}
	if out.Reports, err = b.measure(ctx); err != nil {
		return nil, err
	}
	if b.tor != nil {
		out.Goals = clientGoals(out.Reports[0], out.Reports[1], b.Conflux)
	}
	return out, nil
}

func (b *clientBench) makeNetwork(ctx context.Context) error {
	b.Progress("starting a network of C tor")
	relays := 2
	if b.Conflux {
		relays = 4
	}
	nw, err := ctor.Start(ctx, ctor.Options{Relays: relays, Exits: 1, Scheduler: "Vanilla", TorPath: b.Tor})
	if err != nil {
		return err
	}
	b.tor = nw
	b.path = []*ctor.Node{nw.Node("relay0"), nw.Node("relay1"), nw.Node("exit0")}
	if b.Conflux {
		b.second = []*ctor.Node{nw.Node("relay2"), nw.Node("relay3")}
	}
	if b.file, err = nw.WriteNetworkFile(); err != nil {
		nw.Close()
	}
	return err
}
