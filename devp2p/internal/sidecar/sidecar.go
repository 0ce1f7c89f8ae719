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
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/internal/atomicfile"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/peers"
	"github.com/chivenet/chive/devp2p/onr"
)

// Config is the configuration of a Sidecar.
type Config struct {
	// IPC is the path of the node's IPC socket.
	IPC string
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

	connect func(ctx context.Context, path string) (admin, error) // for tests
	process func(socket string) (*process, error)                 // for tests
}

// Status is what the sidecar does.
type Status struct {
	Node    bool          // the node answers at its IPC socket
	Leaks   []Leak        // how the node shows itself outside Tor
	Onion   devp2p.Onion3 // that others can reach; empty: none yet
	Record  *enode.Node   // of the sidecar, with the onion; nil: none yet
	Private bool          // the sidecar was started with OnlyOnion, and nothing leaks
	// Known is how many nodes the node could connect to, Forwards how many it is told to,
	// Inbound how many connections it has over the onion, and Contacts how many other
	// nodes speak onr/1 with the sidecar.
	Known, Forwards, Inbound, Contacts int
	Problem                            string // why there is no onion, if it is not the leaks
}

// Sidecar is an onion beside a node.
type Sidecar struct {
	cfg   Config
	key   *ecdsa.PrivateKey
	known candidates

	mu     sync.Mutex
	target string // guarded by mu: where the node listens; empty: it is away
	last   Status // owned by Run
}

// New reads the sidecar's key, or makes one. It opens nothing else.
func New(cfg Config) (*Sidecar, error) {
	switch {
	case cfg.IPC == "":
		return nil, errors.New("sidecar: no IPC socket is given")
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
	if cfg.connect == nil {
		cfg.connect = dialIPC
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
	return &Sidecar{cfg: cfg, key: key}, nil
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
			err = atomicfile.Write(path, []byte(hex.EncodeToString(crypto.FromECDSA(key))), atomicfile.Secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("sidecar: its key: %w", err)
	}
	return key, nil
}

// Run runs until ctx ends. A node that is away, or an onion that cannot be opened, is no
// error: Run reports it and tries again.
func (s *Sidecar) Run(ctx context.Context) error {
	st := &state{opened: make(chan *opened), forwards: map[enode.ID]*opened{}}
	defer st.end(s)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-st.opened:
			s.take(ctx, st, o)
		case <-next.C:
			s.step(ctx, st)
			next.Reset(s.cfg.Every)
		}
	}
}

// state is what Run has open.
type state struct {
	admin    admin
	face     face
	session  *session
	retry    time.Time     // when a session may be started again
	wait     time.Duration // between starts that fail
	forwards map[enode.ID]*opened
	opening  int          // connections to onions under way
	opened   chan *opened // what came of them
}

// opened is a forward and what became of it.
type opened struct {
	*forward
	c     *candidate
	alive time.Time // when the node last had the connection, or the forward was opened
	seen  bool      // the node has had it
}

// step looks at the node once, and does what follows.
func (s *Sidecar) step(ctx context.Context, st *state) {
	status := Status{}
	defer func() { s.report(st, status) }()
	v, err := s.view(ctx, st)
	if err != nil {
		if ctx.Err() == nil {
			status.Problem = fmt.Sprintf("the node does not answer at its IPC socket: %v", err)
		}
		s.setTarget("")
		st.dropAdmin(s)
		return
	}
	status.Node, status.Leaks = true, look(v)
	if s.cfg.OnlyOnion && len(status.Leaks) > 0 {
		st.endSession(s)
		return
	}
	status.Private = s.cfg.OnlyOnion
	if err := s.follow(ctx, st, v); err != nil {
		status.Problem = err.Error()
	}
}

// view asks the node, after connecting to it if need be.
func (s *Sidecar) view(ctx context.Context, st *state) (v view, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if st.admin == nil {
		if st.admin, err = s.cfg.connect(ctx, s.cfg.IPC); err != nil {
			st.admin = nil
			return v, err
		}
	}
	if v.info, err = st.admin.Info(ctx); err != nil {
		return v, err
	}
	if v.peers, err = st.admin.Peers(ctx); err != nil {
		return v, err
	}
	if s.cfg.OnlyOnion {
		if v.proc, err = s.cfg.process(s.cfg.IPC); err != nil {
			s.cfg.Log.Debug("sidecar: the node's process cannot be seen", "err", err)
			v.proc = nil
		}
	}
	return v, nil
}

// follow keeps the session and the forwards as the node needs them.
func (s *Sidecar) follow(ctx context.Context, st *state, v view) error {
	port := s.cfg.P2PPort
	if port == 0 {
		var err error
		if port, err = listenPort(v.info); err != nil {
			return err
		}
	}
	s.setTarget(fmt.Sprintf("127.0.0.1:%d", port))
	f, err := faceOf(v.info)
	if err != nil {
		return err
	}
	if st.session != nil && (st.face.id != f.id || st.session.ended()) {
		st.endSession(s)
	}
	if st.session == nil {
		if time.Now().Before(st.retry) {
			return errors.New("the onion ended; it is opened again soon")
		}
		if st.session, err = s.start(f); err != nil {
			st.later()
			return err
		}
		st.face = f
	} else if n := st.session.manager.Self(); n != nil && tellsOnion(n) {
		st.wait = 0
	}
	s.tend(ctx, st, v)
	return nil
}

// tellsOnion reports whether a record has an onion: then the service is published.
func tellsOnion(n *enode.Node) bool {
	_, _, err := devp2p.OnionOf(n)
	return err == nil
}

// later puts the next start off.
func (st *state) later() {
	st.wait = min(max(2*st.wait, time.Second), time.Minute)
	st.retry = time.Now().Add(st.wait)
}

func (s *Sidecar) setTarget(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target = addr
}

func (s *Sidecar) node() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.target
}

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
	ss.front = &front{Onions: s.cfg.Onions, key: s.key, node: s.node, maxConns: s.cfg.MaxInbound, perCircuit: 4, log: s.cfg.Log}
	var err error
	if ss.transport, err = devp2p.New(devp2p.Config{Policy: devp2p.OnlyOnion, Onions: ss.front, IsolatePeers: s.cfg.IsolatePeers, Log: s.cfg.Log}); err != nil {
		return nil, err
	}
	ss.manager, err = peers.New(peers.Config{Key: s.key, Transport: ss.transport, Name: "chive-sidecar", Static: s.cfg.Static,
		Dir: s.cfg.Dir, Port: s.cfg.Port, Log: s.cfg.Log})
	if err != nil {
		return nil, errors.Join(err, ss.transport.Close())
	}
	protocol := onr.Protocol(&book{ss.manager, s, f.id}, onr.Config{Ask: s.cfg.Ask, Log: s.cfg.Log, Report: ss.score})
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

// report tells the caller what changed.
func (s *Sidecar) report(st *state, status Status) {
	status.Known, status.Forwards = s.known.len(), len(st.forwards)
	if ss := st.session; ss != nil {
		status.Inbound = ss.front.open()
		for _, p := range ss.manager.Status() {
			if p.State == peers.Connected {
				status.Contacts++
			}
		}
		if n := ss.manager.Self(); n != nil && n.Load(&status.Onion) == nil {
			status.Record = n
		}
	}
	if !status.equal(s.last) {
		s.last = status
		s.cfg.Report(status)
	}
}

func (a Status) equal(b Status) bool {
	if len(a.Leaks) != len(b.Leaks) || (a.Record == nil) != (b.Record == nil) || a.Record != nil && a.Record.Seq() != b.Record.Seq() {
		return false
	}
	for i := range a.Leaks {
		if a.Leaks[i] != b.Leaks[i] {
			return false
		}
	}
	return a.Node == b.Node && a.Onion == b.Onion && a.Private == b.Private && a.Known == b.Known && a.Forwards == b.Forwards &&
		a.Inbound == b.Inbound && a.Contacts == b.Contacts && a.Problem == b.Problem
}
