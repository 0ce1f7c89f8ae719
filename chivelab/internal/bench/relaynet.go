package bench

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/target"
)

// relayNet is a network of C tor with three of Chive's relays in it.
type relayNet struct {
	*RelayPlan
	scheduler string
	dir       string
	file      string // the network file
	tor       *ctor.Network
	target    *target.Target
	relays    []*child.Process
	// the relays of a path, in order, and their processes
	stock, chive [3]*ctor.Node
	pids         [2][]int // C tor's, Chive's
}

func (p *RelayPlan) startNetwork(ctx context.Context, scheduler string) (n *relayNet, err error) {
	n = &relayNet{RelayPlan: p, scheduler: scheduler}
	defer func() {
		if err != nil {
			n.close()
			n = nil
		}
	}()
	if n.dir, err = os.MkdirTemp("", "chive-bench-"); err != nil {
		return n, fault.Wrap(fault.Local, err)
	}
	if n.target, err = target.Start(); err != nil {
		return n, err
	}
	p.Progress("starting a network of C tor (" + scheduler + ") with three of Chive's relays")
	opts := ctor.Options{Relays: 2, Exits: 1, TorPath: p.Tor, Guests: n.startRelays}
	if scheduler != "KIST" {
		opts.Scheduler = scheduler
	}
	if n.tor, err = ctor.Start(ctx, opts); err != nil {
		return n, err
	}
	n.stock = [3]*ctor.Node{n.tor.Node("relay0"), n.tor.Node("relay1"), n.tor.Node("exit0")}
	for i := range n.stock {
		n.pids[0], n.pids[1] = append(n.pids[0], n.stock[i].PID()), append(n.pids[1], n.relays[i].PID())
	}
	return n, nil
}

func (n *relayNet) close() {
	for _, r := range n.relays {
		if n.Profiles != "" {
			r.Drain() // which writes its profile, and kills it if it does not end
		} else {
			r.Kill()
		}
	}
	if n.tor != nil {
		n.tor.Close()
	}
	if n.target != nil {
		n.target.Close()
	}
	os.RemoveAll(n.dir)
}

// startRelays runs three of Chive's relays, the last an exit.
func (n *relayNet) startRelays(ctx context.Context, tor *ctor.Network) (guests []ctor.Guest, err error) {
	if n.file, err = tor.WriteNetworkFile(); err != nil {
		return nil, err
	}
	for i, name := range positions {
		nick := "chive" + name
		args := append([]string{"relay", "--network", n.file, "--data-dir", filepath.Join(n.dir, name), "--nickname", nick,
			"--orport", "127.0.0.1:0", "--assume-reachable", "--shutdown-wait", "-1s"}, n.Flags...)
		if i == 2 {
			args = append(args, "--exit-private", "--exit-policy", "accept *:*", "--nameserver", n.target.Nameserver().String())
		}
		if n.Profiles != "" {
			args = append(args, "--cpu-profile", filepath.Join(n.Profiles, n.scheduler+"-"+name+".pprof"))
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
		n.chive[i] = &ctor.Node{Name: nick, ID: ident.RelayID{RSA: id}}
		guests = append(guests, ctor.Guest{Nickname: nick, RSA: id})
	}
	return guests, nil
}
