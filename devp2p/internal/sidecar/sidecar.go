package sidecar

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/program"
)

// Config is the configuration of a Sidecar.
type Config struct {
	// IPC is the path of the node's IPC socket. URL is where its JSON-RPC has the methods admin_* in
	// place of that: http://, an address of loopback, a port. One of the two is required.
	IPC, URL string
	// P2PPort is where the node takes connections; zero: the node says so.
	P2PPort int
	// Dir keeps the sidecar's key, the onion's key, and the nodes that are known.
	Dir string
	// Onions reaches and hosts onions. It stays the caller's.
	Onions devp2p.Onions
	// IsolatePeers gives each onion circuits of its own.
	IsolatePeers bool
	// Port is the onion's virtual port; zero: 30303.
	Port int
	// Static nodes are always asked for records, and given to the node if they speak eth.
	Static []*enode.Node
	// MaxPeers is how many onions the node is told to connect to; zero: 16.
	MaxPeers int
	// MaxInbound is how many connections the onion passes to the node; zero: 32.
	MaxInbound int
	// OnlyOnion opens no onion while the node shows itself outside Tor.
	OnlyOnion bool
	// Every is how often the sidecar looks at the node; zero: five seconds. Ask is the
	// longest time between two questions to a peer; zero: as package onr does.
	Every, Ask time.Duration
	// Report, if not nil, is called when the state changes, by one goroutine.
	Report func(Status)
	// Log gets no address, name or key; nil: no log.
	Log *slog.Logger

	// What follows is for tests.
	connect              func(context.Context, endpoint) (admin, error)
	process              func(endpoint) (*process, error)
	watchEvery, watchFor time.Duration
}

// Sidecar is an onion beside a node.
type Sidecar struct {
	cfg   Config
	at    endpoint
	key   *ecdsa.PrivateKey
	known candidates
	poked chan struct{} // of poke

	mu     sync.Mutex
	target string                   // guarded by mu: where the node listens; empty: it is away
	book   *book                    // guarded by mu: of the session; nil: there is none
	found  map[enode.ID]*enode.Node // guarded by mu: of Add
	last   Status                   // guarded by mu
}

// New reads the sidecar's key, or makes one. It opens nothing else.
func New(cfg Config) (*Sidecar, error) {
	at, err := parseEndpoint(cfg.IPC, cfg.URL)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.Dir == "" || cfg.Onions == nil:
		return nil, errors.New("sidecar: Dir and Onions are required")
	case cfg.P2PPort < 0 || cfg.P2PPort > 65535 || cfg.Port < 0 || cfg.Port > 65535:
		return nil, errors.New("sidecar: a port is not from 1 to 65535")
	case cfg.MaxPeers < 0 || cfg.MaxInbound < 0:
		return nil, errors.New("sidecar: limits cannot be negative")
	}
	cfg.Port = cmp.Or(cfg.Port, 30303)
	cfg.MaxPeers = cmp.Or(cfg.MaxPeers, 16)
	cfg.MaxInbound = cmp.Or(cfg.MaxInbound, 32)
	cfg.Every = cmp.Or(cfg.Every, 5*time.Second)
	cfg.watchEvery = cmp.Or(cfg.watchEvery, watchEvery)
	cfg.watchFor = cmp.Or(cfg.watchFor, watchFor)
	if cfg.connect == nil {
		cfg.connect = dialAdmin
	}
	if cfg.process == nil {
		cfg.process = processBehind
	}
	if cfg.Report == nil {
		cfg.Report = func(Status) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	key, err := loadKey(cfg.Dir)
	if err != nil {
		return nil, err
	}
	return &Sidecar{cfg: cfg, at: at, key: key, poked: make(chan struct{}, 1)}, nil
}

// Add takes a node that the caller found. It is given to the node, and asked for records, as those that
// peers tell. A list may be read before there is an onion.
func (s *Sidecar) Add(n *enode.Node, source string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found[n.ID()] == nil && len(s.found) >= maxCandidates {
		return errors.New("sidecar: the list of nodes is full")
	}
	if s.found == nil {
		s.found = map[enode.ID]*enode.Node{}
	}
	s.found[n.ID()] = n
	if s.book == nil {
		return nil
	}
	return s.book.Add(n, source)
}

// setBook tells Add of a session, which gets what was added before; nil: it has ended.
func (s *Sidecar) setBook(b *book) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book = b
	if b == nil {
		return
	}
	for _, n := range s.found {
		_ = b.Add(n, "found") // those for which there is room
	}
}

// loadKey reads the sidecar's identity, or makes it.
func loadKey(dir string) (*ecdsa.PrivateKey, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("sidecar: %w", err)
	}
	path := filepath.Join(dir, "sidecar.key")
	key, err := crypto.LoadECDSA(path)
	if errors.Is(err, fs.ErrNotExist) {
		if key, err = crypto.GenerateKey(); err == nil {
			err = program.WriteFile(path, []byte(hex.EncodeToString(crypto.FromECDSA(key))), 0o600)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("sidecar: its key: %w", err)
	}
	return key, nil
}
