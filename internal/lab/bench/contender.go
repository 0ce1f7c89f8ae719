package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/socksclient"
)

// contender is a running client that is measured.
type contender struct {
	measure.Subject
	bootstrap *measure.Bootstrap
	build     measure.Builder // nil if no circuits are built
	proxy     *child.Process  // nil for C tor's
	closers   []func() error
}

func (c *contender) onClose(f func() error) { c.closers = append(c.closers, f) }

// close ends the client and ignores its error.
func (c *contender) close() {
	for _, f := range slices.Backward(c.closers) {
		_ = f()
	}
}

// measure starts the clients and measures them in turns; C tor's comes first in
// the reports.
func (b *clientBench) measure(ctx context.Context) ([]*measure.Report, error) {
	starts := []func(context.Context, *contender) error{b.startTor, b.startChive}
	if b.tor == nil {
		starts = starts[1:]
	}
	var all []*contender
	var subjects []measure.Subject
	var builders []measure.Builder
	for _, start := range starts {
		c := new(contender)
		defer c.close()
		if err := start(ctx, c); err != nil {
			return nil, err
		}
		all, subjects, builders = append(all, c), append(subjects, c.Subject), append(builders, c.build)
	}
	reports, err := measure.Together(ctx, b.target, b.Measure, subjects...)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%w\nthe proxy said: %s", err, all[len(all)-1].proxy.LastWords())
	}
	for i, r := range reports {
		r.Bootstrap = all[i].bootstrap
	}
	if b.Builds == 0 {
		return reports, nil
	}
	b.Progress("building circuits")
	builds, err := measure.Builds(ctx, b.Builds, builders...)
	for i := range builds {
		reports[i].Build = builds[i]
	}
	return reports, err
}

// startTor starts C tor's client, and another one that builds circuits.
func (b *clientBench) startTor(ctx context.Context, c *contender) error {
	b.Progress("starting C tor's client")
	n, err := b.tor.AddClient(ctx, "", pinLines(b.path)...)
	if err != nil {
		return err
	}
	c.onClose(n.Kill)
	if err := n.AwaitBootstrap(ctx); err != nil {
		return err
	}
	c.Subject = b.subject("tor", n.SOCKS.String(), n.PID())
	// After its bootstrap this client builds only circuits that it is asked for.
	var builder *ctor.Node
	if c.bootstrap, builder, err = measure.TorBootstrap(ctx, b.tor, "LearnCircuitBuildTimeout 0"); err != nil {
		return err
	}
	c.onClose(builder.Kill)
	if b.Builds == 0 {
		return nil
	}
	control, err := builder.Control(ctx)
	if err != nil {
		return err
	}
	c.onClose(control.Close)
	if err := control.SetConf(ctx, "__DisablePredictedCircuits=1"); err != nil {
		return err
	}
	c.build, err = measure.TorBuilder(ctx, control, b.path)
	return err
}

// startChive starts "chive proxy", and a client role in this process that
// builds circuits.
func (b *clientBench) startChive(ctx context.Context, c *contender) error {
	b.Progress("starting Chive's client")
	cold, p, _, err := b.runProxy(ctx)
	if err != nil {
		return err
	}
	if err := p.Drain(); err != nil {
		return err
	}
	warm, p, socks, err := b.runProxy(ctx)
	if err != nil {
		return err
	}
	c.onClose(p.Kill)
	c.proxy = p
	c.Subject = b.subject("chive", socks, p.PID())
	c.bootstrap = &measure.Bootstrap{Cold: cold, Warm: warm}
	if b.Builds > 0 {
		err = b.chiveBuilder(ctx, c, filepath.Join(b.dir, "builds"))
	}
	return err
}

// runProxy runs "chive proxy" until it is ready; the data directory is the
// same each time.
func (b *clientBench) runProxy(ctx context.Context) (took float64, p *child.Process, socks string, err error) {
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

// subject is a client behind a SOCKS proxy, together with the path's relays.
func (b *clientBench) subject(name, socks string, pid int) measure.Subject {
	s := measure.Subject{Name: name, Dial: socksclient.Dialer{Proxy: socks}.DialContext,
		Processes: []measure.Process{{Name: "client", PID: pid}}}
	for i, n := range b.path {
		s.Processes = append(s.Processes, measure.Process{Name: positions[i], PID: n.PID()})
	}
	return s
}

// positions are the positions on a path, in order.
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
