package bench

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/measure"
)

// Schedulers are C tor's: which circuit writes next.
var Schedulers = []string{"Vanilla", "KIST"}

// RelayPlan says how to measure Chive's relays: in one network and one run, C tor's
// client uses a path of C tor's relays, and then one of Chive's; Chive's client uses
// only the latter.
type RelayPlan struct {
	// Program is chive's binary, which is run as "chive relay" and "chive proxy".
	Program string
	// Tor is C tor's program; empty: "tor" in PATH.
	Tor string
	// Schedulers are C tor's to compare with, of the list Schedulers.
	Schedulers []string
	// Measure is what is measured of each path.
	Measure measure.Plan
	// Onionskins is how many circuits of one hop are built with each handshake.
	Onionskins int
	// Limit bounds each path's measurements, and those of each onion handshake;
	// zero: 5 minutes.
	Limit time.Duration
	// Profiles is a directory for CPU profiles of Chive's relays, one for each
	// scheduler and relay; empty: none.
	Profiles string
	// Flags are further flags of "chive relay".
	Flags []string
	// Log receives the relays' logs; may be nil.
	Log io.Writer
	// Progress is called with the present step; may be nil.
	Progress func(string)
}

// RelayReport is the result of Relay.
type RelayReport struct {
	Reports    []*measure.Report `json:"reports"` // for each scheduler: C tor's path, Chive's, and Chive's with its own client
	Onionskins []Onionskins      `json:"onionskins,omitempty"`
	Goals      []Goal            `json:"goals,omitempty"`
}

// Relay measures relays.
func Relay(ctx context.Context, p RelayPlan) (*RelayReport, error) {
	if p.Progress == nil {
		p.Progress = func(string) {}
	}
	if p.Limit == 0 {
		p.Limit = 5 * time.Minute
	}
	p.Measure.Progress = p.Progress
	if p.Profiles != "" {
		if err := os.MkdirAll(p.Profiles, 0o755); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
	}
	if len(p.Schedulers) == 0 {
		return nil, fault.New(fault.Config, "bench relay: no scheduler of C tor is named")
	}
	out := &RelayReport{}
	for _, s := range p.Schedulers {
		if err := p.network(ctx, s, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *RelayPlan) network(ctx context.Context, scheduler string, out *RelayReport) error {
	n, err := p.startNetwork(ctx, scheduler)
	if err != nil {
		return err
	}
	defer n.close()
	var got [3]*measure.Report
	for i, measure := range []func(context.Context) (*measure.Report, error){n.torPath, n.mixedPath, n.chivePath} {
		ctx, cancel := context.WithTimeout(ctx, p.Limit)
		got[i], err = measure(ctx)
		cancel()
		if err != nil {
			return err
		}
	}
	out.Reports = append(out.Reports, got[:]...)
	out.Goals = append(out.Goals, relayGoals(scheduler, got[0], got[1], got[2])...)
	if p.Onionskins == 0 {
		return nil
	}
	skins, err := n.onionskins(ctx)
	if err != nil {
		return err
	}
	out.Onionskins = append(out.Onionskins, skins...)
	out.Goals = append(out.Goals, onionGoals(scheduler, skins)...)
	return nil
}
