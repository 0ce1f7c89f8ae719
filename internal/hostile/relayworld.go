package hostile

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/simnet"
)

// relayWorld has a relay that clients attack, and a relay that dials it, and the
// relays to which it extends.
type relayWorld struct {
	t     *testing.T
	net   *simnet.Network
	relay *simnet.Relay // the attacked relay
	good  *simnet.Relay // the end of the honest circuit
	exit  *exit.Exit
	exits exit.Stats
	user  *honest
	// memory accounts for what peers make the relay hold.
	memory *account.Memory
	next   [2]*relaySide

	dir    *dirserver.Server // the relay's
	links  [3]*peer          // two without an identity, and one with an identity
	circs  [4]*end
	mangle mangle

	generation int // generation of circuits' identifiers

	racing  int // extends since the last time when none was in progress
	raced   int // the largest number of them
	extends int // all of them
}

// exitStreams gives a relay's streams to the echo service, or to its exit, which has
// no exit policy and serves a directory.
type exitStreams struct{ w *relayWorld }

func (s exitStreams) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	if m.Cmd == cell.RelayBegin {
		switch b, err := cell.ParseBegin(m.Data); {
		case err != nil:
		case b.Host == echoHost:
			return s.w.relay.HandleStream(h, m)
		case b.Host == pauseHost && h.Conflux() == nil: // else it stops with a lock of the set, and virtual time with it
			time.Sleep(pause)
		}
	}
	return s.w.exit.HandleStream(h, m)
}

// A stream to pauseHost is refused, and its reader stops for a moment, as if the
// relay's processors had other work. Meanwhile other peers can end links and
// circuits between two cells of one record.
const (
	pauseHost = "pause"
	pause     = 100 * time.Microsecond
)

func newRelayWorld(t *testing.T) *relayWorld {
	w := &relayWorld{t: t, net: simnet.NewNetwork(), memory: account.New(0)}
	w.dir = dirserver.New(dirserver.Config{Docs: new(dirserver.Memory), Now: now})
	var err error
	w.exit, err = exit.New(nil, w.dir, exit.Options{Log: silent, Now: now, Stats: &w.exits})
	if err != nil {
		t.Fatal(err)
	}
	w.relay = simnet.New(t, simnet.Options{Network: w.net, Addr: address(nodeVictim), Keys: nodeKeys[nodeVictim], Memory: w.memory, Streams: exitStreams{w}})
	w.good = simnet.New(t, simnet.Options{Network: w.net, Addr: address(nodeGood), Keys: nodeKeys[nodeGood]})
	for i := range w.next {
		node := nodeHostile + i
		w.next[i] = newRelaySide(t, w.net, nodeKeys[node], targetOf(node))
	}
	w.user = newHonest(t, w.net, w.relay.Target)
	return w
}

// linkTo returns the hostile link of that number, and opens it if it is not open.
func (w *relayWorld) linkTo(n byte) *peer {
	i := int(n) % len(w.links)
	if p := w.links[i]; p != nil && !p.closed() {
		return p
	}
	cfg := &channel.LinkConfig{}
	if i == 2 {
		cfg = &channel.LinkConfig{Identity: nodeKeys[nodeCaller].Link, Addrs: addrsOf(targetOf(nodeCaller))}
	}
	to := w.relay.Target
	ctx, cancel := context.WithTimeout(context.Background(), honestTime)
	defer cancel()
	raw, err := w.net.Dialer(netip.AddrFrom4([4]byte{10, 0, 2, byte(i)}))(ctx, to.Addrs[0])
	if err != nil {
		w.t.Fatal(err) // the relay is not closed
	}
	l, err := channel.Connect(ctx, raw, to.RelayID, to.Addrs[0], cfg)
	if err != nil {
		w.t.Fatal("a valid link handshake: ", err)
	}
	w.links[i] = newPeer(l, w.take)
	return w.links[i]
}

// take handles a cell that the relay sent to a hostile peer.
func (w *relayWorld) take(p *peer, id uint32, cmd cell.Command, body []byte) {
	p.mu.Lock()
	e := p.circs[id]
	p.mu.Unlock()
	if e != nil {
		e.take(cmd, body)
	}
}

// circ returns the circuit that an argument selects, or nil if it does not exist.
func (w *relayWorld) circ(a byte) *end { return w.circs[int(a)%len(w.circs)] }

// hopOf returns the hop that an argument selects.
func hopOf(a byte) int { return int(a>>4) & 1 }

// send sends cells on a circuit's link.
func (w *relayWorld) send(p *peer, cells []byte, i Insn) {
	if p != nil {
		p.write(w.mangle.apply(cells), i.Op&Joined != 0)
	}
}

func (w *relayWorld) settle() {
	for _, p := range w.links {
		if p != nil {
			p.write(nil, false)
		}
	}
	w.raced = max(w.raced, w.racing)
	w.racing = 0
}

// patience is the time after which no work of a hostile peer may still be in
// progress.
const patience = 5 * time.Minute

func (w *relayWorld) finish() {
	later(0)
	w.user.echo("during the attack")
	w.checkLinks()
	for _, p := range w.links {
		if p != nil {
			p.close()
		}
	}
	for _, n := range w.next {
		n.close()
	}
	later(patience)
	w.user.echo("after the attack")
	w.relay.Channels.Reap()
	later(time.Minute)
	w.check(1)
	if n := len(w.relay.Channels.Channels()); n > 1 {
		w.t.Errorf("%d links are open, of which the honest client needs 1", n)
	}
	w.user.close()
	later(time.Second)
	w.check(0)
	w.good.Stop()
	w.relay.Stop()
	w.exit.Close()
	later(0)
	if n := w.memory.Used(); n != 0 {
		w.t.Errorf("%d bytes are left on the account", n)
	}
}

// check compares what is open at the relay with what honest clients have.
func (w *relayWorld) check(circuits int64) {
	w.t.Helper()
	if n := w.relay.Circuits.Circuits.Load(); n != circuits {
		w.t.Errorf("%d circuits are open, not %d", n, circuits)
	}
	if n := w.relay.Server.ConfluxSets(); n != 0 {
		w.t.Errorf("%d conflux sets are left", n)
	}
	if intro, waiting := w.relay.Server.HSPoints(); intro != 0 || waiting != 0 {
		w.t.Errorf("%d introduction points and %d rendezvous cookies are left", intro, waiting)
	}
	if n := w.exits.Streams.Load(); n != 0 {
		w.t.Errorf("%d streams are open at the exit", n)
	}
	if n := w.dir.Stats().Open.Load(); n != 0 {
		w.t.Errorf("%d directory streams are being served", n)
	}
}

// checkLinks compares the relay's links with the extends: no link to itself, and one
// link to each address, or more if extends raced.
func (w *relayWorld) checkLinks() {
	w.t.Helper()
	w.settle()
	own := address(nodeVictim)
	dials := 0
	for _, d := range w.net.Dials() {
		if d.From == own.Addr() {
			dials++
		}
	}
	if most := 1 + maxDials*w.extends; dials > most {
		w.t.Errorf("the relay dialled %d times for %d extends", dials, w.extends)
	}
	for d, n := range w.net.Open() {
		if d.From == own.Addr() && d.To == own {
			w.t.Errorf("the relay has %d links to itself", n)
		}
		if d.From == own.Addr() && n > max(1, w.raced) {
			w.t.Errorf("the relay has %d links to one address; at most %d extends raced", n, w.raced)
		}
	}
}

// maxDials is how many addresses a relay may dial for one extend.
const maxDials = 8
