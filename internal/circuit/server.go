package circuit

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/protover"
)

// ChannelOpener opens channels to other relays, or finds open ones.
type ChannelOpener interface {
	// Find returns an open channel, or nil.
	Find(t linkspec.Target) *channel.Channel
	// Get opens one, if there is none.
	Get(ctx context.Context, t linkspec.Target) (*channel.Channel, error)
}

// StreamHandler takes the messages that open a stream at a relay: BEGIN,
// BEGIN_DIR and RESOLVE. It runs on a channel's reader and must not block. An
// error is a violation of the protocol.
type StreamHandler interface {
	HandleStream(h *Hop, m cell.RelayMsg) error
}

// ServerConfig is what a relay needs to take circuits.
type ServerConfig struct {
	Env *Env
	ID  ident.RelayID
	// Onion returns the onion keys that are good now, the newest first.
	Onion func() []*handshake.NtorKeyPair
	// Flow returns the consensus's flow-control parameters.
	Flow func() *flow.Params
	// Channels opens the next hop's channel.
	Channels ChannelOpener
	// Streams takes streams; nil refuses all.
	Streams StreamHandler
	// AllowTarget says whether a circuit may be extended to a relay. It removes
	// addresses that this relay does not connect to.
	AllowTarget func(*linkspec.Target) error
	// Lookup returns what the directory says of a relay, if it lists it. May be
	// nil.
	Lookup func(ident.RSAID) (linkspec.Target, bool)
	// MaxOnionDelay bounds the time that an onionskin may wait; zero means 1.75
	// seconds, as C tor's MaxOnionQueueDelay.
	MaxOnionDelay time.Duration
	Stats         *ServerStats // may be nil
	// PQ lists what this relay has advertised of the post-quantum
	// subprotocol (handshake.ProtoName), the newest first, as "1-3,8". Empty
	// refuses it.
	PQ []string
	// HS returns what the consensus says about onion services; nil: HSParams{}.
	HS func() HSParams
	// Heard, for the laboratory, is called with every message that this relay recognises, before
	// it acts on it; home is the circuit's end toward the client. It runs on a channel's reader,
	// must not block, and must keep nothing of the message. It may be nil.
	Heard func(home *channel.CircuitEnd, m cell.RelayMsg)
}

// ServerStats counts what a relay's circuits did.
type ServerStats struct {
	Circuits                      atomic.Int64 // open now
	Onionskins, OnionskinsDropped atomic.Uint64
	CGO, Congestion               atomic.Uint64 // circuits that negotiated the one or the other
	OnionNanos                    atomic.Uint64 // CPU spent on handshakes, by wall clock of the workers
	Extends, ExtendsFailed        atomic.Uint64
	QueueNanos                    atomic.Uint64

	// Of onion services: introductions that were sent on, those that were refused, and
	// circuits that were joined, two at a time.
	Introductions, IntroductionsRefused, Rendezvous atomic.Uint64

	Padding atomic.Uint64 // DROP cells that padding machines have sent
}

// Server takes circuits from clients and other relays.
type Server struct {
	cfg  ServerConfig
	skin *onionQueue
	pq   *onionQueue
	stop context.CancelFunc
	ctx  context.Context
	wg   sync.WaitGroup
	sets confluxSets
	hs   hsPoints

	speaks  []protover.Set // what cfg.PQ says
	origins extendOrigins
}

// NewServer starts a server's handshake workers; Close stops them.
func NewServer(cfg ServerConfig) *Server {
	if cfg.MaxOnionDelay == 0 {
		cfg.MaxOnionDelay = 1750 * time.Millisecond
	}
	if cfg.Stats == nil {
		cfg.Stats = new(ServerStats)
	}
	// The workers leave one processor, if there are two, to the goroutines that move
	// cells.
	n := runtime.GOMAXPROCS(0)
	s := &Server{cfg: cfg, skin: newOnionQueue(n - 1), pq: newOnionQueue(n / 2), speaks: parseSpoken(cfg.PQ)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	for _, q := range []*onionQueue{s.skin, s.pq} {
		for range q.workers {
			s.wg.Go(panics.Keep(cfg.Env.Log, s.rest, func() { s.work(q) }))
		}
	}
	return s
}

// Close stops the workers and the extends under way, and waits for them, and for what hears of
// the ends of circuits.
func (s *Server) Close() {
	s.stop()
	s.skin.close()
	s.pq.close()
	s.wg.Wait()
	s.cfg.Env.WaitEnds()
}

// Accept is a channel.Config's Accept: it takes a CREATE cell.
func (s *Server) Accept(home *channel.CircuitEnd, cmd cell.Command, p []byte) { s.accept(home, cmd, p) }

func (s *Server) accept(home *channel.CircuitEnd, cmd cell.Command, p []byte) *Circuit {
	c := newCircuit(s.cfg.Env, fromClient)
	s.own(c)
	c.earlyIn = relayEarlyBudget
	c.setHome(home)
	home.SetReceiver(homeSide{c})
	form := cell.FormOf(cmd)
	if form == nil {
		c.Close(cell.DestroyProtocol, fault.New(fault.Protocol, "%v is obsolete", cmd))
		return c
	}
	m, err := form.ParseCreate(p)
	var k *handshake.Kind
	if err == nil {
		k, err = s.kind(m.Type, form)
	}
	switch {
	case err != nil:
		c.violation(err)
	case k == nil:
		c.violation(fault.New(fault.Protocol, "CREATE2: %v is not supported", m.Type))
	case k.Cost == handshake.CostHash:
		created, t, err := s.handshake(k, m.Data)
		if err == nil {
			err = s.finish(c, k, created, t)
		}
		if err != nil {
			c.violation(err)
		}
	default:
		s.enqueue(onionJob{c: c, kind: k, cost: k.Cost, skin: append([]byte(nil), m.Data...), at: s.cfg.Env.Now()})
	}
	return c
}

// own makes c a circuit of this server's, which counts until its end.
func (s *Server) own(c *Circuit) {
	c.server = &serverSide{s: s}
	s.cfg.Stats.Circuits.Add(1)
}

// disown says that a circuit has closed.
func (s *Server) disown() { s.cfg.Stats.Circuits.Add(-1) }

// enqueue queues an onionskin. It refuses one when those before it would make it
// wait too long: the client would give up before.
func (s *Server) enqueue(j onionJob) {
	j.c.Account().Reserve(j.size())
	q := s.skin
	if j.cost == handshake.CostMLKEM {
		q = s.pq
	}
	d, wait := q.push(j.c.home.Load().Channel(), j, s.cfg.MaxOnionDelay)
	if d == nil {
		return
	}
	s.cfg.Stats.OnionskinsDropped.Add(1)
	drop := func() {
		d.c.Close(cell.DestroyResourceLimit, fault.New(fault.Resource, "onionskin queue: it would take %v", wait))
	}
	if d.c == j.c {
		drop()
	} else {
		// Of another channel: its reader may hold what closing takes.
		go panics.Contain(s.cfg.Env.Log, nil, drop)()
	}
}

func (s *Server) work(q *onionQueue) {
	for {
		j, ok := q.pop()
		if !ok {
			return
		}
		panics.Contain(s.cfg.Env.Log, j.c.broke, func() { s.serve(q, j) })()
		runtime.Gosched() // a handshake is as long as hundreds of cells, which are first now
	}
}

// rest waits for a second after a panic of a worker's own; false after Close.
func (s *Server) rest() bool {
	select {
	case <-s.ctx.Done():
		return false
	case <-time.After(time.Second):
		return true
	}
}

func (s *Server) serve(q *onionQueue, j onionJob) {
	defer j.c.Account().Release(j.size())
	start := s.cfg.Env.Now()
	st := s.cfg.Stats
	st.QueueNanos.Add(uint64(start.Sub(j.at)))
	if j.c.over() {
		return
	}
	var answer func() error
	var err error
	if j.hop != nil {
		answer, err = s.serveRekey(j.hop, j.skin)
	} else {
		var created []byte
		var t terms
		created, t, err = s.handshake(j.kind, j.skin)
		answer = func() error { return s.finish(j.c, j.kind, created, t) }
	}
	// What it costs to compute, without what sending waits for.
	took := s.cfg.Env.Now().Sub(start)
	st.Onionskins.Add(1)
	st.OnionNanos.Add(uint64(took))
	old := q.cost.Load()
	q.cost.Store(old + (int64(took)-old)/16)
	if err == nil {
		err = answer()
	}
	if err != nil {
		j.c.violation(err)
	}
}
