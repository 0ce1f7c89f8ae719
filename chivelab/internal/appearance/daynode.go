package appearance

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/logline"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/relay"
)

// DayRelays are all relays of a day's network, in one process: they record, and write what they have seen to trace.json
// in the current directory when the plan ends.
func DayRelays(ctx context.Context, planFile string) error {
	text, err := os.ReadFile(planFile)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	var plan dayPlan
	if err := json.Unmarshal(text, &plan); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	text, err = os.ReadFile(filepath.Join(filepath.Dir(planFile), dayNetwork))
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	description, err := netfile.Parse("the network", text)
	if err != nil {
		return err
	}
	log := logline.New(slog.LevelWarn, logline.Auto, os.Stderr)
	rec := newRecorder()
	clients := map[netip.Addr]*client{}
	for _, c := range plan.Clients {
		clients[c.Addr] = &client{subject: &Subject{Name: c.Subject}}
	}
	rec.owner = func(from, _ netip.AddrPort) *client { return clients[from.Addr()] }
	end := dayStart.Add(plan.End)
	for i, r := range plan.Relays {
		at := dayStart.Add(r.Start)
		if !at.Before(end) {
			break
		}
		if err := pause(ctx, time.Until(at)); err != nil {
			return err
		}
		if err := plan.startRelay(ctx, rec, description, i, log); err != nil {
			return err
		}
	}
	if err := pause(ctx, time.Until(end)); err != nil {
		return err
	}
	var traces []*Trace
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, c := range plan.Clients {
		traces = append(traces, rec.trace(c, clients[c.Addr]))
	}
	text, err = json.Marshal(traces)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	return fault.Wrap(fault.Local, os.WriteFile(filepath.Base(DayTrace), text, 0o644))
}

// startRelay starts the i-th relay and what records its wire.
func (p *dayPlan) startRelay(ctx context.Context, rec *recorder, description *netdir.Network, i int, log *slog.Logger) error {
	r := p.Relays[i]
	behind := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(dayBehind+i))
	f, err := newFront(rec, i, netip.AddrPortFrom(p.Addr, uint16(dayORPort+i)).String(), behind.String(), 0)
	if err != nil {
		return err
	}
	cfg := relay.Config{
		Network: description, DataDir: r.Name, Log: log.With("relay", r.Name),
		Nickname: r.Name, Listen: []netip.AddrPort{behind}, Advertise: []netip.AddrPort{f.addr()},
		AssumeReachable: true, ShutdownWait: -1, Rate: 1 << 30, Burst: 1 << 30,
		Tap: &relay.Tap{Protocols: ctorProtocols, Heard: rec.hear, Link: func(l *channel.Link) { rec.tapLink(i, l) }},
	}
	if r.Exit {
		policy, err := exit.WholePolicy([]string{"accept *:*"}, exit.PolicyOptions{Private: true})
		if err != nil {
			return err
		}
		cfg.Exit = &exit.Config{Policy: policy, Private: true, Nameservers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53")}}
	}
	node, err := relay.New(cfg)
	if err != nil {
		return err
	}
	go panics.Contain(log, nil, func() {
		if err := node.Run(ctx); err != nil {
			log.Error("a relay that records has ended", "err", err)
		}
	})()
	return nil
}

// DayUser fetches a page by the program on its host at given times since the simulator's begin. If service is set, the
// page is that of the onion service in this directory.
func DayUser(ctx context.Context, at []time.Duration, target, service string) error {
	for _, t := range at {
		if err := pause(ctx, time.Until(dayStart.Add(t))); err != nil {
			return err
		}
		to := target
		if service != "" {
			name, err := hostname(service)
			if err != nil {
				return err
			}
			to = name + ":80"
		}
		bounded, cancel := context.WithTimeout(ctx, 5*time.Minute)
		err := get(bounded, daySOCKS, to, "/bytes/100000", 100_000)
		cancel()
		word := "fetched"
		if err != nil {
			word = "failed: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if _, err := os.Stdout.WriteString(time.Now().UTC().Format(time.DateTime) + " " + word + "\n"); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	<-ctx.Done() // the simulator wants processes that it need not end early
	return nil
}
