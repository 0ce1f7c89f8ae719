package appearance

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/relay"
)

// layout says what relays a network has. The exits are after the other relays in all lists, and then the bridges, which no
// consensus names.
type layout struct {
	relays, exits, bridges int
	weight                 func(i int) int // of the i-th, in kB/s; nil: all have the same
	onion                  bool            // there is an onion service
	delay                  time.Duration   // of the links between clients and relays, one way
	six                    bool            // every second relay has an IPv6 address, too, and every second exit lets streams out over IPv6
	voting                 time.Duration   // how often the authorities vote; zero: every five minutes
}

// recording is where clients are recorded. There are enough relays for two guards, their middles and two exits of one
// client, none of them twice.
var recording = layout{relays: 8, exits: 4, bridges: 2, onion: true, six: ctor.HasIPv6()}

// listed is how many relays the consensus has.
func (l layout) listed() int { return l.relays + l.exits }

// valid is for how many intervals of voting a consensus is valid: with few, clients soon fetch the next one.
func (l layout) valid() int {
	if l.voting > 0 {
		return 3
	}
	return 0
}

// ctorProtocols are the subprotocols of C tor's relays: ours must not look like Chive's, of which a
// client of Chive asks more.
const ctorProtocols = "Conflux=1 Cons=1-2 Desc=1-4 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=1-2 Link=1-5 LinkAuth=1,3 Microdesc=1-3 Padding=2 Relay=2-6"

// publicParams are those of the public network's consensus that clients' appearance hangs on, and whose
// defaults are others.
var publicParams = map[string]int{"ExtendByEd25519ID": 1}

// network is C tor's authorities, relays that record, and what clients connect to.
type network struct {
	rec    *recorder
	layout layout
	tor    *ctor.Network
	target *target.Target
	onion  string // an onion service: its name, without a port
	visits string // a SOCKS port of C tor, for who visits other onion services
	fronts []*front
	relays []*relay.Relay
	stop   context.CancelFunc
	wg     sync.WaitGroup
	log    *slog.Logger
}

func startNetwork(ctx context.Context, tor string, l layout, log *slog.Logger) (nw *network, err error) {
	nw = &network{rec: newRecorder(), layout: l, log: log, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, nw.close())
			nw = nil
		}
	}()
	if nw.target, err = target.Start(); err != nil {
		return nw, err
	}
	// Authorities relay, too, and record nothing: with so little bandwidth nobody chooses them.
	bandwidth := map[string]int{}
	for i := range 3 {
		bandwidth[fmt.Sprintf("%v%d", ctor.Authority, i)] = 1
	}
	for i := 0; l.weight != nil && i < l.listed(); i++ {
		bandwidth[seenName(i)] = l.weight(i)
	}
	nw.tor, err = ctor.Start(ctx, ctor.Options{
		Authorities: 3, Relays: -1, Exits: -1, Bandwidth: bandwidth, Params: publicParams, IPv6: l.six, VotingInterval: l.voting, ValidIntervals: l.valid(), Nameserver: nw.target.Nameserver(), TorPath: tor, Log: log,
		Guests: func(ctx context.Context, t *ctor.Network) ([]ctor.Guest, error) {
			guests, err := nw.startRelays(t)
			if err != nil {
				return nil, err
			}
			return guests, preferGuests(ctx, t, guests)
		},
	})
	if err != nil {
		return nw, err
	}
	if l.onion {
		if err := nw.startOnion(ctx); err != nil {
			return nw, err
		}
	}
	return nw, nw.awaitBridges(ctx)
}

func seenName(i int) string { return fmt.Sprintf("seen%d", i) }

// preferGuests makes the authorities vote that none of themselves is a guard or a directory of onion services: what
// clients do there nobody would see.
func preferGuests(ctx context.Context, t *ctor.Network, guests []ctor.Guest) error {
	var ids []string
	for _, g := range guests {
		ids = append(ids, "$"+g.RSA.String())
	}
	set := strings.Join(ids, ",")
	for _, a := range t.Authorities() {
		c, err := a.Control(ctx)
		if err != nil {
			return err
		}
		err = c.SetConf(ctx, "TestingDirAuthVoteGuard="+set, "TestingDirAuthVoteGuardIsStrict=1", "TestingDirAuthVoteHSDir="+set, "TestingDirAuthVoteHSDirIsStrict=1")
		if err = errors.Join(err, c.Close()); err != nil {
			return err
		}
	}
	return nil
}

// startRelays starts the relays that record, and lets them publish.
func (nw *network) startRelays(t *ctor.Network) (guests []ctor.Guest, err error) {
	text, err := t.NetworkFile()
	if err != nil {
		return nil, err
	}
	description, err := netfile.Parse("the network", text)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	nw.stop = stop
	for i := range nw.layout.listed() + nw.layout.bridges {
		port, err := t.FreePort()
		if err != nil {
			return nil, err
		}
		behind := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		f, err := newFront(nw.rec, i, "127.0.0.1:0", behind.String(), nw.layout.delay)
		if err != nil {
			return nil, err
		}
		nw.fronts = append(nw.fronts, f)
		advertise := []netip.AddrPort{f.addr()}
		bridge := i >= nw.layout.listed()
		if nw.layout.six && (bridge || i%2 == 0) {
			six, err := f.also("[::1]:0")
			if err != nil {
				return nil, err
			}
			if !bridge { // who has a bridge's line has one address
				advertise = append(advertise, six)
			}
		}
		cfg := relay.Config{
			Network: description, DataDir: filepath.Join(t.Dir, seenName(i)), Log: slog.New(slog.DiscardHandler),
			Nickname: seenName(i), Listen: []netip.AddrPort{behind}, Advertise: advertise,
			AssumeReachable: true, ShutdownWait: -1, Rate: 1 << 30, Burst: 1 << 30,
			Tap: &relay.Tap{Protocols: ctorProtocols, Heard: nw.rec.hear, Link: func(l *channel.Link) { nw.rec.tapLink(i, l) }},
		}
		switch {
		case bridge:
			cfg.Bridge = true
		case i >= nw.layout.relays:
			policy, err := exit.WholePolicy([]string{"accept *:*"}, exit.PolicyOptions{Private: true, IPv6: nw.exitsSix(i)})
			if err != nil {
				return nil, err
			}
			cfg.Exit = &exit.Config{Policy: policy, Private: true, IPv6: nw.exitsSix(i), Nameservers: []netip.AddrPort{nw.target.Nameserver()}}
		}
		if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		r, err := relay.New(cfg)
		if err != nil {
			return nil, err
		}
		nw.relays = append(nw.relays, r)
		nw.wg.Go(panics.Contain(nw.log, nil, func() {
			if err := r.Run(ctx); err != nil {
				nw.log.Error("a relay that records has ended", "err", err)
			}
		}))
		if !cfg.Bridge {
			guests = append(guests, ctor.Guest{Nickname: cfg.Nickname, RSA: r.Target().RSA})
		}
	}
	return guests, nil
}

// exitsSix reports whether streams go out of a relay over IPv6.
func (nw *network) exitsSix(i int) bool { return nw.layout.six && i >= nw.layout.relays && i%2 == 0 }

// startOnion starts an onion service of C tor in front of the target's web server.
func (nw *network) startOnion(ctx context.Context) error {
	dir := filepath.Join(nw.tor.Dir, "service")
	n, err := nw.tor.AddClient(ctx, "", "HiddenServiceDir "+dir, "HiddenServicePort 80 "+nw.target.Addr(target.Web))
	if err != nil {
		return err
	}
	nw.visits = n.SOCKS.String()
	nw.onion, err = hostname(dir)
	return err
}

// hostname reads the name of an onion service.
func hostname(dir string) (string, error) {
	name, err := os.ReadFile(filepath.Join(dir, "hostname"))
	return strings.TrimSpace(string(name)), fault.Wrap(fault.Local, err)
}

// awaitBridges waits until the bridges have what their clients ask for.
func (nw *network) awaitBridges(ctx context.Context) error {
	for _, r := range nw.relays[nw.layout.listed():] {
		for d := r.Directory(); d == nil || !d.Enough(false); d = r.Directory() {
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return fault.New(fault.KindOf(err), "a bridge has no directory: %w", err)
			}
		}
	}
	return nil
}

// bridgeLines returns the lines for clients that go by bridges, over IPv6 if six is true.
func (nw *network) bridgeLines(six bool) []string {
	out := []string{"UseBridges 1"}
	for i := nw.layout.listed(); i < len(nw.relays); i++ {
		at := nw.fronts[i].addr()
		if six {
			at, _ = nw.fronts[i].alsoAddr()
		}
		out = append(out, fmt.Sprintf("Bridge %s %s", at, nw.relays[i].Target().RSA))
	}
	return out
}

// fallbacks returns the FallbackDir lines for clients: the relays that record, as the public
// network's clients ask fallbacks first.
func (nw *network) fallbacks() []string {
	var out []string
	for i, r := range nw.relays[:nw.layout.listed()] {
		a := nw.fronts[i].addr()
		line := fmt.Sprintf("FallbackDir %s:1 orport=%d id=%s", a.Addr(), a.Port(), r.Target().RSA)
		if six, ok := nw.fronts[i].alsoAddr(); ok {
			line += fmt.Sprintf(" ipv6=%v", six)
		}
		out = append(out, line)
	}
	return out
}

// close ends everything and waits.
func (nw *network) close() error {
	for _, r := range nw.relays {
		r.Cut()
	}
	nw.stop()
	nw.wg.Wait()
	for _, f := range nw.fronts {
		f.close()
	}
	var err error
	if nw.tor != nil {
		err = nw.tor.Close() // removes the relays' directories, too
	}
	if nw.target != nil {
		err = errors.Join(err, nw.target.Close())
	}
	return err
}

// next returns where the circuit of a spot goes on, by the onionskin of its EXTEND2.
func (r *recorder) next(at spot) (spot, *cell.Extend2, bool) {
	for _, m := range at.link.heard {
		if m.circ != at.circ || m.cmd != cell.RelayExtend2 {
			continue
		}
		x, err := cell.ParseExtend2(m.data)
		if err != nil {
			return spot{}, nil, false
		}
		to, found := r.skins[sha256.Sum256(x.Data)]
		return to, &x, found
	}
	return spot{}, nil, false
}
