package benchonion

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/logline"
	"github.com/chivenet/chive/lab"
)

// relays is how many relays each network has that are neither authorities nor exits:
// enough for every position of a path.
const relays = 6

// network is what the two networks have in common.
type network struct {
	name   string
	file   string        // the network file
	client *chive.Client // of this process
	closes []func() error
}

func (n *network) onClose(f func() error) { n.closes = append(n.closes, f) }

// close ends the network, and ignores errors: its figures have been taken.
func (n *network) close() {
	for i := len(n.closes) - 1; i >= 0; i-- {
		_ = n.closes[i]()
	}
}

// torNet is a network of C tor.
type torNet struct {
	network
	tor *ctor.Network
}

// chiveNet is a network whose nodes are all Chive's, except one client of C tor's.
type chiveNet struct {
	network
	lab *lab.Network
}

// startTor starts a network of C tor with one of its schedulers, and a client of
// Chive's in this process.
func (r *run) startTor(ctx context.Context, scheduler string) (n *torNet, err error) {
	r.Progress("starting a network of C tor (" + scheduler + ")")
	n = &torNet{network: network{name: "C tor's relays, " + scheduler}}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	opts := ctor.Options{Relays: relays, Exits: 1, TorPath: r.Tor}
	if scheduler != "KIST" {
		opts.Scheduler = scheduler
	}
	if n.tor, err = ctor.Start(ctx, opts); err != nil {
		return n, err
	}
	n.onClose(n.tor.Close)
	if n.file, err = n.tor.WriteNetworkFile(); err != nil {
		return n, err
	}
	description, err := chive.LoadNetwork(n.file)
	if err != nil {
		return n, err
	}
	dir, err := os.MkdirTemp(r.dir, "host")
	if err != nil {
		return n, fault.Wrap(fault.Local, err)
	}
	if n.client, err = chive.New(chive.Config{Network: description, DataDir: dir, Logger: r.logger()}); err != nil {
		return n, err
	}
	n.onClose(n.client.Close)
	return n, n.client.Wait(ctx)
}

// startChive starts a network of Chive's, each node a process.
func (r *run) startChive(ctx context.Context) (n *chiveNet, err error) {
	r.Progress("starting a network of Chive")
	n = &chiveNet{network: network{name: "Chive's relays"}}
	n.lab, err = lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute, Relays: relays, Exits: 1, Processes: true, Program: r.Program, CtorClients: 1, Tor: r.Tor, Log: r.logger()})
	if err != nil {
		n.close()
		return nil, err
	}
	n.onClose(n.lab.Close)
	n.file, n.client = n.lab.NetworkFile, n.lab.Client
	return n, nil
}

func (r *run) logger() *slog.Logger {
	if r.Log == nil {
		return nil
	}
	return logline.New(slog.LevelInfo, logline.Auto, r.Log)
}

// torClient returns the network's client of C tor.
func (n *chiveNet) torClient() (*lab.Node, error) {
	for _, node := range n.lab.Nodes() {
		if node.Role == lab.Client && node.Program == "tor" {
			return node, nil
		}
	}
	return nil, fault.Wrap(fault.Local, errors.New("the lab has no client of C tor"))
}

// profile returns flags with which a process writes a CPU profile, if profiles are
// wanted.
func (r *run) profile(name string) []string {
	if r.Profiles == "" {
		return nil
	}
	return []string{"--cpu-profile", filepath.Join(r.Profiles, name+".pprof")}
}
