package interop

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/relay"
)

// A run of the protocol for shared random values has 24 rounds. In a network for tests a
// time period is as long, and begins in the middle of a run.
const (
	periodLength = 24 * authInterval
	periodOffset = periodLength / 2
)

// probe connects again and again.
type probe struct {
	name  string
	pause time.Duration // between two connects
	peers bool          // only C tor takes part: its failures are logged
	// dial opens a connection. Each call uses another circuit, and, for a fresh client,
	// another descriptor.
	dial func(ctx context.Context, n int, addr string) error

	connects, failed int
	longest          time.Duration
}

// run probes until ctx ends. A connect that was begun before is waited for.
func (p *probe) run(ctx context.Context, t *testing.T, addr string) {
	for n := 0; ; n++ {
		began := time.Now()
		one, cancel := context.WithTimeout(t.Context(), patience)
		err := p.dial(one, n, addr)
		cancel()
		if err != nil {
			p.failed++
			report := t.Errorf
			if p.peers {
				report = t.Logf
			}
			report("%s, connect %d, begun at %s: %v after %v", p.name, n, began.Format(time.TimeOnly), err, time.Since(began).Round(time.Millisecond))
		}
		p.connects++
		p.longest = max(p.longest, time.Since(began))
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.pause):
		}
	}
}

// TestOnionPeriods probes a service of each program while time periods and shared random
// values change, with clients that have a descriptor and with clients that must fetch it.
// The services' directories change with each.
func TestOnionPeriods(t *testing.T) {
	if os.Getenv("CHIVE_LONG") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: a time period lasts four minutes at least; CHIVE_LONG=1 runs it, in ten minutes")
	}
	t.Parallel()
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	const freshClients = 3
	an := newAuthorityNet(t, 2, 0, 8, "")
	for i := range 3 {
		runRelay(t, an.net, relay.Config{Nickname: fmt.Sprint("chive", i), Contact: "lab", AssumeReachable: true})
	}
	ctx := bounded(t, 20*time.Minute)
	dir := t.TempDir()
	opts := ctor.Options{DirAuthorities: []string{}, Relays: 4, Exits: 1, Clients: 2 + freshClients, VotingInterval: authInterval, ValidIntervals: 3,
		Extra: map[string][]string{
			// With what it learns on a loaded machine, C tor drops circuits that would be ready soon.
			"client":  {"LearnCircuitBuildTimeout 0"},
			"client0": {"HiddenServiceDir " + dir + "/service", fmt.Sprintf("HiddenServicePort %d %s", onionEcho, shared.target.Addr(target.Echo))}},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, l := range an.lines {
		opts.DirAuthorities = append(opts.DirAuthorities, strings.TrimPrefix(l, "DirAuthority "))
	}
	tor, err := ctor.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(tor.LastWords())
		}
		if err := tor.Close(); err != nil {
			t.Error(err)
		}
	})
	name, err := os.ReadFile(dir + "/service/hostname")
	if err != nil {
		t.Fatal(err)
	}
	// A client that forgets makes all its circuits anew each time: no more than it needs.
	newClient := func(name string) *chive.Client {
		return inNetwork(t, an.net, name, func(cfg *chive.Config) { cfg.Conflux = chive.SwitchOff })
	}
	l := serve(t, newClient("service"), chive.OnionConfig{Targets: map[int]string{onionEcho: shared.target.Addr(target.Echo)}})
	services := map[string]string{"C tor's service": strings.TrimSpace(string(name)), "Chive's service": l.Address()}

	text := func(n int) string { return fmt.Sprint("number ", n) }
	probes := func() (out []*probe) {
		cached := tor.Node("client1")
		out = append(out, &probe{name: "C tor with a descriptor", pause: 200 * time.Millisecond, dial: func(ctx context.Context, n int, addr string) error {
			return echo(ctx, socksclient.Dialer{Proxy: cached.SOCKS.String(), User: text(n), Pass: "x"}, addr, text(n))
		}})
		return out
	}
	var all []*probe
	addrOf := map[*probe]string{}
	add := func(service string, p *probe) {
		p.name += " at " + service
		all = append(all, p)
		addrOf[p] = fmt.Sprintf("%s:%d", services[service], onionEcho)
	}
	for service := range services {
		for _, p := range probes() {
			p.peers = service == "C tor's service"
			add(service, p)
		}
		old, fresh := newClient("cached "+service), newClient("fresh "+service)
		add(service, &probe{name: "Chive with a descriptor", pause: 200 * time.Millisecond, dial: func(ctx context.Context, n int, addr string) error {
			return echo(ctx, old.Isolated(), addr, text(n))
		}})
		add(service, &probe{name: "Chive without a descriptor", pause: 200 * time.Millisecond, dial: func(ctx context.Context, n int, addr string) error {
			fresh.NewIdentity()
			return echo(ctx, fresh, addr, text(n))
		}})
	}
	// C tor forgets no more often than every ten seconds. Then it asks both services.
	for i := range freshClients {
		node := tor.Node(fmt.Sprint("client", 2+i))
		control, err := node.Control(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer control.Close()
		all = append(all, &probe{name: fmt.Sprintf("C tor without a descriptor (%d) at both", i), pause: 10100 * time.Millisecond, dial: func(ctx context.Context, n int, _ string) error {
			if err := control.Signal(ctx, "NEWNYM"); err != nil {
				return err
			}
			for service, host := range services {
				if err := echo(ctx, socksclient.Dialer{Proxy: node.SOCKS.String(), User: text(n), Pass: "x"}, fmt.Sprintf("%s:%d", host, onionEcho), text(n)); err != nil {
					return fmt.Errorf("%s: %w", service, err)
				}
			}
			return nil
		}})
	}
	// The services must have been found once.
	for _, p := range all {
		await(t, "the first connection of "+p.name, patience, func() bool { return p.dial(ctx, -1, addrOf[p]) == nil })
	}

	probing, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			select { // not all at once
			case <-time.After(time.Duration(i) * 300 * time.Millisecond):
			case <-probing.Done():
			}
			p.run(probing, t, addrOf[p])
		})
	}
	began := time.Now()
	watch(t, ctx, an, 2)
	stop()
	wg.Wait()
	t.Logf("probed for %v", time.Since(began).Round(time.Second))
	for _, p := range all {
		t.Logf("%s: %d connects, %d failed, the longest took %v", p.name, p.connects, p.failed, p.longest.Round(time.Millisecond))
		if p.connects < 5 {
			t.Errorf("%s: %d connects", p.name, p.connects)
		}
	}
	for _, n := range tor.Nodes {
		w, err := n.Warnings(0)
		if err != nil {
			t.Error(err)
		}
		for _, line := range w {
			report := t.Errorf
			if strings.HasPrefix(n.Name, "client") && lateDescriptor.MatchString(line) {
				report = t.Logf
			}
			report("%s: %s", n.Name, line)
		}
	}
}

// lateDescriptor is what a client of C tor's says of a descriptor that it asked for in the period
// before the one in which it reads it: it takes the keys of the period that it is in by then.
var lateDescriptor = regexp.MustCompile(`Decrypting superencrypted desc failed|Service descriptor decryption failed|HSDesc parsing failed`)

// watch waits until the period and the shared random value have each changed as often as
// wanted, and clients have had the time to get the consensus that says so.
func watch(t *testing.T, ctx context.Context, an *authorityNet, wanted int) {
	t.Helper()
	var seen *netdoc.Consensus
	periodOf := func(c *netdoc.Consensus) uint64 {
		return hscrypto.PeriodAt(c.ValidAfter, uint64(periodLength/time.Minute), periodOffset).Num
	}
	value := func(c *netdoc.Consensus) (out [32]byte) {
		if c.SharedRandCurrent != nil {
			out = c.SharedRandCurrent.Value
		}
		return out
	}
	periods, values := 0, 0
	var done time.Time
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for done.IsZero() || time.Since(done) < 5*authInterval {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Error(context.Cause(ctx))
			return
		}
		c, err := netdoc.ParseConsensus(an.chive[0].Consensus(netdoc.FlavorMicrodesc), nil, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if seen == nil {
			seen = c
		}
		if periodOf(c) != periodOf(seen) {
			periods++
			t.Logf("%s: a new period", c.ValidAfter.Local().Format(time.TimeOnly))
		}
		if value(c) != value(seen) {
			values++
			t.Logf("%s: a new shared random value", c.ValidAfter.Local().Format(time.TimeOnly))
		}
		if seen = c; done.IsZero() && periods >= wanted && values >= wanted {
			done = time.Now()
		}
	}
}
