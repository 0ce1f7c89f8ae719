package shadow

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/chivelab/internal/deploy"
	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/chivelab/internal/wan"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/netdir"
)

// Measurement is what the experiment's client does in the simulation.
type Measurement struct {
	File      *experiment.File
	Network   *netdir.Network
	Path      []string // nicknames
	Echo, Web netip.AddrPort
	Out       string
	Version   string
}

// Times of a measurement.
const (
	directoryPause = 5 * time.Second // between two questions for a directory that is not there yet
	directoryTime  = time.Minute     // for an answer
)

// Run waits for a directory with the path, and measures.
func (m *Measurement) Run(ctx context.Context) error {
	at := &experiment.Site{Network: m.Network, Echo: m.Echo, Web: m.Web, Dial: dial}
	for {
		try, cancel := context.WithTimeout(ctx, directoryTime)
		path, err := benchcirc.Named(try, m.Network, m.Path, dial)
		cancel()
		if err == nil {
			at.Path = path
			break
		}
		select {
		case <-ctx.Done():
			return fault.Ended(ctx, "no directory with the path: %w", err)
		case <-time.After(directoryPause):
		}
	}
	_, err := experiment.RunAt(ctx, m.File, m.Out, m.Version, at, func(experiment.Progress) {})
	return err
}

func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	return c, fault.Wrap(fault.Network, err)
}

// ServeTarget sends bytes back at one address, unless it is "", and pages by HTTP at another.
func ServeTarget(ctx context.Context, echo, web string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	if echo == "" {
		ended <- nil
	} else {
		l, err := net.Listen("tcp4", echo)
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		go func() {
			err := deploy.ServeTarget(ctx, l, new(metrics.Registry))
			cancel(err)
			ended <- err
		}()
	}
	err := wan.ServeTarget(ctx, web)
	cancel(err)
	if bad := <-ended; bad != nil {
		return bad
	}
	return err
}
