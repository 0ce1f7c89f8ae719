package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"path/filepath"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p"

	"github.com/chivenet/chive"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/peers"
)

// A Kind is a way to a node.
type Kind string

// The kinds.
const (
	Clear Kind = "clearnet"
	Chive Kind = "chive"
	// Tor, Vanilla and KIST are onions of a stock tor: over Chive's relays, as Chive's own
	// are; and over stock tor's relays with one of its schedulers.
	Tor     Kind = "tor"
	Vanilla Kind = "tor-vanilla"
	KIST    Kind = "tor-kist"
)

// Kinds are all kinds, in the order of reports.
var Kinds = []Kind{Clear, Chive, Tor, Vanilla, KIST}

// NodeConfig is the configuration of a measured node.
type NodeConfig struct {
	Kind    Kind
	Network string // a network file, for Chive
	Control string // a Tor daemon's control port, for those of a stock tor
	SOCKS   string // its SOCKS port
	Proxy   string // by which Chive's client reaches relays; empty: none
	Both    bool   // it has an address beside the onion
	Dir     string
}

// The messages of the protocol that is measured.
const (
	msgStatus = iota
	msgEcho
	msgGet
	msgData
	numMsgs

	baseMsgs = 16 // of RLPx's own protocol, before those of others
	chunk    = 64 << 10
)

// MaxPeers is how many peers a measured node takes.
const MaxPeers = 1000

// status has the size of that of eth/69.
type status struct {
	Version, NetworkID uint64
	Genesis            [32]byte
	Fork               [12]byte
	Earliest, Latest   uint64
	Head               [32]byte
}

// protocol answers the measuring side.
func protocol() p2p.Protocol {
	data := make([]byte, chunk)
	rand.Read(data)
	return p2p.Protocol{Name: "bench", Version: 1, Length: numMsgs, Run: func(_ *p2p.Peer, rw p2p.MsgReadWriter) error {
		for {
			msg, err := rw.ReadMsg()
			if err != nil {
				return err
			}
			switch msg.Code {
			case msgStatus:
				err = p2p.Send(rw, msgStatus, &status{Version: 69, NetworkID: 1})
			case msgEcho:
				var b []byte
				if err = msg.Decode(&b); err == nil {
					err = p2p.Send(rw, msgEcho, b)
				}
			case msgGet:
				var n uint64
				if err = msg.Decode(&n); err != nil {
					break
				}
				for n > 0 && err == nil {
					part := min(n, chunk)
					err = p2p.Send(rw, msgData, data[:part])
					n -= part
				}
			default:
				err = fmt.Errorf("message %d", msg.Code)
			}
			if err != nil {
				return err
			}
		}
	}}
}

// Node runs a measured node until ctx ends. It writes "node RECORD" and "ready" when it
// can be reached.
func Node(ctx context.Context, out io.Writer, cfg NodeConfig) error {
	onions, policy, err := onionsOf(cfg)
	if err != nil {
		return err
	}
	defer onions.close()
	tr, err := devp2p.New(devp2p.Config{Policy: policy, Onions: onions.Onions})
	if err != nil {
		return err
	}
	defer tr.Close()
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	pc := peers.Config{Key: key, Transport: tr, Name: "bench", MaxPeers: MaxPeers, PerCircuit: MaxPeers, MaxPending: 64, Protocols: []p2p.Protocol{protocol()}}
	if cfg.Kind == Clear || cfg.Both {
		pc.ListenAddr = "127.0.0.1:0"
	}
	m, err := peers.New(pc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	reachable := make(chan struct{})
	go func() {
		defer close(reachable)
		m.Reachable(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-reachable:
	}
	if ctx.Err() == nil {
		fmt.Fprintf(out, "node %s\nready\n", m.Self())
	}
	return <-done
}

type ownedOnions struct {
	devp2p.Onions
	client *chive.Client // nil: none
}

func (o ownedOnions) close() {
	if o.Onions != nil {
		o.Onions.Close()
	}
	if o.client != nil {
		o.client.Close()
	}
}

func onionsOf(cfg NodeConfig) (o ownedOnions, p devp2p.Policy, err error) {
	switch cfg.Kind {
	case Clear:
		return o, devp2p.Clearnet, nil
	case Chive:
		network, err := chive.LoadNetwork(cfg.Network)
		if err != nil {
			return o, "", err
		}
		o.client, err = chive.New(chive.Config{Network: network, DataDir: filepath.Join(cfg.Dir, "client"), Proxy: cfg.Proxy})
		if err != nil {
			return o, "", err
		}
		o.Onions = devp2p.Embedded(o.client)
		return o, devp2p.OnlyOnion, nil
	case Tor, Vanilla, KIST:
		o.Onions, err = devp2p.TorProxy(devp2p.TorProxyConfig{SOCKS: cfg.SOCKS, Control: cfg.Control})
		return o, devp2p.OnlyOnion, err
	}
	return o, "", fmt.Errorf("bench: kind %q", cfg.Kind)
}
