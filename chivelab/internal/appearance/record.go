package appearance

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/netaddr"
)

// recorder keeps what the network's relays and their fronts see. A run has a bounded time, and the
// clients are the laboratory's own, so what it keeps has no other bound.
type recorder struct {
	owners owners
	owner  func(from, to netip.AddrPort) *client // whose a connection is; nil: no client's

	mu    sync.Mutex
	conns []*conn                    // of clients, in the order of their begin
	from  map[hop]*conn              // connections that are open now, by the front's own to the relay
	links map[*channel.Link]*link    // of clients and of relays
	skins map[[sha256.Size]byte]spot // where an onionskin arrived
}

// hop is a connection of a front to its relay.
type hop struct{ front, relay netip.AddrPort }

// spot is a circuit at one relay.
type spot struct {
	link *link
	circ uint32
}

// conn is a client's TCP connection to a relay.
type conn struct {
	client  *client
	port    netip.AddrPort // the client's
	to      netip.AddrPort
	relay   int
	opened  time.Time
	ended   time.Time
	how     string // how the client ended it: "FIN", or "RST"
	hello   []byte // the first record, without its header
	records []record
	link    *link // nil before the link handshake is done
}

// record is one TLS record of application data from the client.
type record struct {
	at   time.Time
	size int // without the header
}

// link is a link as its responder sees it.
type link struct {
	relay int
	conn  *conn // nil: of another relay
	cells []seen
	heard []message
}

// seen is a cell on a client's link. DATA and the like are RELAY cells here.
type seen struct {
	at   time.Time
	out  bool // to the client
	cmd  cell.Command
	circ uint32
	body []byte // of CREATE2, DESTROY and PADDING_NEGOTIATE
}

// message is a relay message that a relay recognised.
type message struct {
	at     time.Time
	circ   uint32
	cmd    cell.RelayCommand
	stream uint16
	data   []byte
}

func newRecorder() *recorder {
	r := &recorder{owners: owners{pids: map[int]*client{}}, from: map[hop]*conn{}, links: map[*channel.Link]*link{}, skins: map[[sha256.Size]byte]spot{}}
	r.owner = r.owners.of
	return r
}

// tapLink is a relay's Tap.Link: it puts a recording connection before the channel.
func (r *recorder) tapLink(relay int, l *channel.Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &link{relay: relay}
	if !l.Initiator {
		if k.conn = r.from[hop{netaddr.OfPort(l.Conn.RemoteAddr()), netaddr.OfPort(l.Conn.LocalAddr())}]; k.conn != nil {
			k.conn.link = k
		}
	}
	r.links[l] = k
	t := &tapped{Conn: l.Conn, below: l.Conn.NetConn, in: splitter{r: r, k: k}, out: splitter{r: r, k: k, out: true}}
	t.in.feedLocked(l.Leftover)
	l.Conn = t
}

// hear is a relay's Tap.Heard.
func (r *recorder) hear(home *channel.CircuitEnd, m cell.RelayMsg) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.links[home.Channel().Link()]
	if k == nil {
		return // a link from before this recorder: there is none
	}
	k.heard = append(k.heard, message{now, home.ID(), m.Cmd, m.Stream, append([]byte(nil), m.Data...)})
}

// tapped is a TLS connection whose cells are recorded.
type tapped struct {
	net.Conn
	below   func() net.Conn
	in, out splitter
}

// NetConn returns the connection below TLS.
func (t *tapped) NetConn() net.Conn { return t.below() }

// Read records what it reads.
func (t *tapped) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.in.feed(b[:n])
	return n, err
}

// Write records what it has written.
func (t *tapped) Write(b []byte) (int, error) {
	n, err := t.Conn.Write(b)
	t.out.feed(b[:n])
	return n, err
}

// splitter finds the cells of one direction of a link.
type splitter struct {
	r    *recorder
	k    *link
	out  bool
	rest []byte // of a cell that is not whole yet
}

func (s *splitter) feed(b []byte) {
	if len(b) == 0 {
		return
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.feedLocked(b)
}

// feedLocked takes more bytes. The caller holds the recorder's mu.
func (s *splitter) feedLocked(b []byte) {
	now := time.Now()
	s.rest = append(s.rest, b...)
	at := 0
	for at < len(s.rest) {
		n := cell.Size(s.rest[at:])
		if n == 0 || len(s.rest)-at < n {
			break
		}
		s.cell(now, s.rest[at:at+n])
		at += n
	}
	s.rest = append(s.rest[:0], s.rest[at:]...)
}

func (s *splitter) cell(now time.Time, c []byte) {
	e := seen{at: now, out: s.out, cmd: cell.Cmd(c), circ: cell.CircID(c)}
	switch e.cmd {
	case cell.CmdCreate2:
		m, err := cell.ParseCreate2(c[cell.HeaderLen:])
		if err == nil && !s.out {
			s.r.skins[sha256.Sum256(m.Data)] = spot{s.k, e.circ}
		}
		fallthrough
	case cell.CmdDestroy, cell.CmdPaddingNegotiate:
		e.body = append([]byte(nil), c[cell.HeaderLen:]...)
	}
	if s.k.conn != nil {
		s.k.cells = append(s.k.cells, e)
	}
}
