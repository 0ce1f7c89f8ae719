package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// restTime is how long the clients rest after their start: a program finds a client as it is most of
// the time, with its circuits built.
const restTime = 3 * time.Second

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
	b.Progress("letting the clients rest")
	select {
	case <-time.After(restTime):
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "bench: %w", context.Cause(ctx))
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
	n, err := b.tor.AddClient(ctx, "", b.pinLines()...)
	if err != nil {
		return err
	}
	c.onClose(n.Kill)
	if err := n.AwaitBootstrap(ctx); err != nil {
		return err
	}
	if b.Conflux {
		if err := awaitSet(ctx, n); err != nil {
			return err
		}
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
		conflux := "off"
		if b.Conflux {
			conflux = "on"
		}
		args = append(args, "--strict-nodes", "--conflux", conflux)
		for i, flag := range []string{"--entry-nodes", "--middle-nodes", "--exit-nodes"} {
			for _, n := range b.at(i) {
				args = append(args, flag, n.ID.RSA.String())
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	p, said, err := child.Start(ctx, nil, b.Program, args...)
	return time.Since(began).Seconds(), p, said["socks"], err
}

// subject is a client behind a SOCKS proxy, together with the path's relays.
func (b *clientBench) subject(name, socks string, pid int) measure.Subject {
	circuit := func(i int) measure.Dial {
		return socksclient.Dialer{Proxy: socks, User: circuitUser + strconv.Itoa(i), Pass: "x"}.DialContext
	}
	s := measure.Subject{Name: name, Dial: socksclient.Dialer{Proxy: socks}.DialContext, Circuit: circuit,
		Processes: []measure.Process{{Name: "client", PID: pid}}}
	for i := range b.path {
		for k, n := range b.at(i) {
			name := positions[i]
			if k > 0 {
				name = "second " + name
			}
			s.Processes = append(s.Processes, measure.Process{Name: name, PID: n.PID()})
		}
	}
	return s
}

// positions are the positions on a path, in order.
var positions = []string{"guard", "middle", "exit"}

// at lists the relays of a position: the first leg's, and the second leg's if it has another one.
func (b *clientBench) at(position int) []*ctor.Node {
	out := []*ctor.Node{b.path[position]}
	if position < len(b.second) {
		out = append(out, b.second[position])
	}
	return out
}

// pinLines makes a C tor client use the relays of the bench.
func (b *clientBench) pinLines() []string {
	out := []string{"StrictNodes 1", "ConfluxEnabled 0"}
	if b.Conflux {
		out[1] = "ConfluxEnabled 1"
	}
	for i := range b.path {
		var ids []string
		for _, n := range b.at(i) {
			ids = append(ids, "$"+n.ID.RSA.String())
		}
		out = append(out, fmt.Sprintf("%sNodes %s", [...]string{"Entry", "Middle", "Exit"}[i], strings.Join(ids, ",")))
	}
	return out
}

// awaitSet waits until a client of C tor has a conflux set of two legs.
func awaitSet(ctx context.Context, n *ctor.Node) error {
	control, err := n.Control(ctx)
	if err != nil {
		return err
	}
	defer control.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		all, err := control.Circuits(ctx)
		if err != nil {
			return err
		}
		legs := 0
		for _, c := range all {
			if c.Purpose == "CONFLUX_LINKED" && c.Status == "BUILT" {
				legs++
			}
		}
		if legs >= 2 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fault.New(fault.Timeout, "C tor's client has no conflux set: %w", context.Cause(ctx))
		}
	}
}
