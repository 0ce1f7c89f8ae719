package sidecar

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/peers"
	"github.com/chivenet/chive/devp2p/onr"
)

// session is the onion and what speaks onr/1 on it.
type session struct {
	transport *devp2p.Transport
	front     *front
	manager   *peers.Manager
	cancel    context.CancelFunc
	done      chan struct{}
	err       error // set before done is closed
}

func (ss *session) ended() bool {
	select {
	case <-ss.done:
		return true
	default:
		return false
	}
}

// start opens the onion for a node.
func (s *Sidecar) start(f face) (*session, error) {
	ss := &session{done: make(chan struct{})}
	ss.front = &front{Onions: s.cfg.Onions, key: s.key, node: s.node, maxConns: s.cfg.MaxInbound, perCircuit: 4, onEnd: s.poke, log: s.cfg.Log}
	var err error
	if ss.transport, err = devp2p.New(devp2p.Config{Policy: devp2p.OnlyOnion, Onions: ss.front, IsolatePeers: s.cfg.IsolatePeers, Log: s.cfg.Log}); err != nil {
		return nil, err
	}
	ss.manager, err = peers.New(peers.Config{Key: s.key, Transport: ss.transport, Name: "chive-sidecar", Static: s.cfg.Static,
		Dir: s.cfg.Dir, Port: s.cfg.Port, Log: s.cfg.Log})
	if err != nil {
		return nil, errors.Join(err, ss.transport.Close())
	}
	b := &book{ss.manager, s, f.id}
	protocol := onr.Protocol(b, onr.Config{Ask: s.cfg.Ask, Log: s.cfg.Log, Report: ss.score})
	// The entry "eth" may change later, when the node crosses a fork. Others use it only to
	// see that there is an Ethereum node.
	protocol.Attributes = []enr.Entry{onr.Fronts(*f.key)}
	if f.eth != nil {
		protocol.Attributes = append(protocol.Attributes, enr.WithEntry("eth", f.eth))
	}
	ss.manager.Handle(protocol)
	for _, n := range s.cfg.Static {
		if e, err := ethNode(n); err == nil && e.ID() != f.id {
			if err := s.known.add(e, "static", true); err != nil {
				return nil, errors.Join(err, ss.transport.Close())
			}
		}
	}
	for _, n := range ss.manager.Known(maxCandidates) {
		if e, err := ethNode(n); err == nil && e.ID() != f.id {
			_ = s.known.add(e, "kept", false) // those for which there is room
		}
	}
	s.setBook(b)
	ctx, cancel := context.WithCancel(context.Background())
	ss.cancel = cancel
	go func() {
		defer close(ss.done)
		ss.err = ss.manager.Run(ctx)
	}()
	return ss, nil
}

// score tells the manager what came of a peer.
func (ss *session) score(id enode.ID, kept int, err error) {
	switch {
	case err != nil:
		ss.manager.Score(id, peers.Malformed)
	case kept > 0:
		ss.manager.Score(id, peers.Useful)
	}
}

// close ends the session.
func (ss *session) close() error {
	ss.cancel()
	<-ss.done
	return errors.Join(ss.err, ss.transport.Close())
}

// book is what onr/1 of the sidecar reads and writes: records go to the manager, which
// speaks onr/1 with their nodes, and the Ethereum nodes among them to the candidates.
type book struct {
	*peers.Manager
	s    *Sidecar
	node enode.ID // that this sidecar is for
}

// Add implements onr.Book.
func (b *book) Add(n *enode.Node, source string) error {
	if n.Record().IdentityScheme() != "v4" {
		return nil // a node behind a sidecar: it came with the sidecar's record
	}
	err := b.Manager.Add(n, source)
	if e, noEth := ethNode(n); err == nil && noEth == nil && e.ID() != b.node {
		err = b.s.known.add(e, source, false)
	}
	return err
}
