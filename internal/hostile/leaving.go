package hostile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	paths "github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// leaveWorld has a relay that is everything that a relay can be, an onion service, and a client
// that asks them for something and goes. The client comes through a relay of its own, so that
// this one's link can die.
type leaveWorld struct {
	t      *testing.T
	net    *simnet.Network
	relay  *simnet.Relay // whose work is looked at
	middle *simnet.Relay // the askers'
	other  *simnet.Relay // the service's, and of those who only fill places
	next   *relaySide    // a relay to which circuits are extended
	memory *account.Memory
	links  *channel.Manager // of all clients
	env    *circuit.Env

	exit  *exit.Exit
	exits exit.Stats
	dir   *dirserver.Server
	hsdir *dirserver.HSDir
	gate  chan struct{} // closed at the end: slow answers of the directory

	service *hsservice.Service // nil until a row needs it
	onions  *netdir.Directory
	crowd   sync.Once    // see comesLate
	nobody  net.Listener // takes connections, and says nothing
}

// Where streams and circuits lead.
var (
	leaveNobody   = netip.MustParseAddrPort("10.0.3.1:80")    // see nobody
	leaveSilent   = netip.MustParseAddrPort("198.51.100.1:9") // in simnet.Silent
	leaveOutside  = netip.MustParseAddr("10.0.0.251")         // where the exit's connections come from
	leaveTargets  = netip.MustParseAddr("10.0.0.252")         // where the onion service's do
	leaveConnects = time.Hour                                 // nothing ends by itself
)

// The onion service's ports.
const (
	portSilent = iota + 1
	portNobody
	portListened
)

func newLeaveWorld(t *testing.T) *leaveWorld {
	w := &leaveWorld{t: t, net: simnet.NewNetwork(), memory: account.New(0), env: &circuit.Env{Log: silent, Now: now}, gate: make(chan struct{})}
	w.hsdir = dirserver.NewHSDir(dirserver.HSDirConfig{Now: now, MaxBytes: func() int64 { return 1 << 20 }})
	w.dir = dirserver.New(dirserver.Config{Docs: new(dirserver.Memory), Now: now, MaxUpload: func(string) int { return 64 << 10 }, Timeout: leaveConnects, MinRate: 1,
		Extra: func(ctx context.Context, p dirserver.Peer, r *dirserver.Request) *dirserver.Response {
			switch r.Path {
			case "/slow":
				<-w.gate
			case "/long":
				return dirserver.OK(make([]byte, 1<<20), 0)
			}
			return w.hsdir.Handle(ctx, p, r)
		}})
	var err error
	w.exit, err = exit.New(&exit.Config{Policy: exit.AcceptAll(), Private: true, Nameservers: []netip.AddrPort{leaveNobody}, ConnectTimeout: leaveConnects}, w.dir,
		exit.Options{Log: silent, Now: now, Stats: &w.exits, Dial: w.dialer(leaveOutside)})
	if err != nil {
		t.Fatal(err)
	}
	w.exit.SetLookups(func(_ string, _, _, most int32) int32 { return most })
	if w.nobody, err = w.net.Listen(leaveNobody); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, err := w.nobody.Accept(); err != nil {
				return
			}
		}
	}()
	w.relay = simnet.New(t, simnet.Options{Network: w.net, Addr: address(nodeVictim), Keys: nodeKeys[nodeVictim], Memory: w.memory, Streams: w.exit})
	w.middle = simnet.New(t, simnet.Options{Network: w.net, Addr: address(nodeGood), Keys: nodeKeys[nodeGood]})
	w.other = simnet.New(t, simnet.Options{Network: w.net, Addr: address(nodeCaller), Keys: nodeKeys[nodeCaller]})
	w.next = newRelaySide(t, w.net, nodeKeys[nodeHostile], targetOf(nodeHostile))
	w.links = channel.NewManager(&channel.Config{Log: silent, Now: now}, &channel.LinkConfig{}, w.net.Dialer(honestAddress))
	return w
}

// dialer returns a function like package net's.
func (w *leaveWorld) dialer(from netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := w.net.Dialer(from)
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		return dial(ctx, netip.MustParseAddrPort(address))
	}
}

// leaveNet is a directory that lists the relay: the service replaces introduction points that
// have left the consensus. makeKeys must be called before.
var leaveNet = sync.OnceValues(func() (*netdir.Directory, error) {
	n, err := dirgen.New(dirgen.Options{Relays: 40, ValidAfter: epoch.Add(-10 * time.Minute), Seed: 1, Identities: []ident.RSAID{nodeKeys[nodeVictim].Link.ID.RSA}})
	if err != nil {
		return nil, err
	}
	return n.Directory()
})

func makeLeaveNet() error {
	_, err := leaveNet()
	return err
}

// host starts the onion service, and waits until clients can find it.
func (w *leaveWorld) host() {
	if w.service != nil {
		return
	}
	var err error
	if w.onions, err = leaveNet(); err != nil {
		w.t.Fatal(err)
	}
	key, err := hsservice.NewKey()
	if err != nil {
		w.t.Fatal(err)
	}
	w.service, err = hsservice.New(hsservice.Config{Key: key, Network: leaveHost{w}, CGO: true,
		Live: hsservice.Live{IntroductionPoints: 1, Ports: map[uint16]bool{portListened: true}, Targets: map[uint16][]hsservice.Target{
			portSilent: {{Network: "tcp", Address: leaveSilent.String()}}, portNobody: {{Network: "tcp", Address: leaveNobody.String()}},
		}},
		Dial: w.dialer(leaveTargets)})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.service.WaitPublished(ctx); err != nil {
		w.t.Fatal(err)
	}
	later(time.Second)
}

// circuit builds a circuit to the relay, through another one.
func (w *leaveWorld) circuit(through *simnet.Relay, o circuit.HopOptions) (*circuit.Circuit, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ch, err := w.links.Get(ctx, through.Target)
	if err != nil {
		return nil, err
	}
	return circuit.Build(ctx, w.env, ch, &circuit.Route{Targets: []linkspec.Target{through.Target, w.relay.Target}, Options: o})
}

// asker is a client that goes.
type asker struct {
	circ   *circuit.Circuit
	hop    *circuit.Hop         // that is asked: the circuit's last one
	id     uint16               // of its stream
	also   []func()             // when it is all over
	cookie [cell.CookieLen]byte // of its rendezvous
	raw    *end                 // in the place of circ and hop: see comesRaw
}

var errLeaves = fault.New(fault.Closed, "the asker leaves")

// comes returns an asker with a circuit.
func (w *leaveWorld) comes() *asker {
	return w.comesWith(circuit.HopOptions{Congestion: true, CGO: true})
}

func (w *leaveWorld) comesWith(o circuit.HopOptions) *asker {
	c, err := w.circuit(w.middle, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return &asker{circ: c, hop: c.Last()}
}

// comesRaw returns an asker that has the relay as its first hop, and keeps its circuit after
// TRUNCATE, as no client of ours does.
func (w *leaveWorld) comesRaw() *asker {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	to := w.relay.Target
	raw, err := w.net.Dialer(honestAddress)(ctx, to.Addrs[0])
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := channel.Connect(ctx, raw, to.RelayID, to.Addrs[0], &channel.LinkConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	c := newCall(to, cell.HandshakeNtorV3, 0)
	e := &end{id: 1<<31 | 1, call: c}
	e.p = newPeer(l, func(_ *peer, _ uint32, cmd cell.Command, body []byte) { e.take(cmd, body) })
	e.p.write(c.cells(e.id, 0), false)
	later(0)
	if e.ready() != 1 {
		w.t.Fatal("the relay does not answer CREATE2")
	}
	return &asker{raw: e, also: []func(){e.p.close}}
}

// meets returns an asker with a circuit to the onion service.
func (w *leaveWorld) meets() *asker {
	w.host()
	c := hsclient.New(hsclient.Config{Network: leaveClient{w}, Log: silent, Testing: true, Private: true, CGO: true, Keys: func() hsclient.Keys { return nil }})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	id, err := hscrypto.ReadAddress(w.service.Address())
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := c.Acquire(ctx, id, isolation.Key{}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	c.NewIdentity() // there is no spare rendezvous point now
	return &asker{circ: l.Circuit().Engine(), hop: l.Hop(), also: []func(){l.Release, c.Close}}
}

// opens sends a message that opens a stream, and others for it.
func (a *asker) opens(w *leaveWorld, cmd cell.RelayCommand, body []byte, data ...string) {
	if err := a.hop.OpenStream(func(id uint16) circuit.StreamReceiver { a.id = id; return unheard{} }); err != nil {
		w.t.Fatal(err)
	}
	a.says(w, cmd, a.id, body)
	for _, d := range data {
		a.says(w, cell.RelayData, a.id, []byte(d))
	}
}

func (a *asker) says(w *leaveWorld, cmd cell.RelayCommand, stream uint16, body []byte) {
	if err := a.hop.Send(cmd, stream, body); err != nil {
		w.t.Fatal(err)
	}
}

// begins opens a stream to a host.
func (a *asker) begins(w *leaveWorld, to string) {
	a.opens(w, cell.RelayBegin, append([]byte(to), 0, 0, 0, 0, 0))
}

// unheard is a stream whose messages nobody reads.
type unheard struct{}

func (unheard) HandleMessage(cell.RelayMsg, time.Time) error { return nil }
func (unheard) Flush()                                       {}
func (unheard) HandleCircuitClose(error)                     {}

// ends ends what an asker has left.
func (a *asker) ends() {
	if a.circ != nil {
		a.circ.Close(cell.DestroyNone, errLeaves)
	}
	for _, f := range a.also {
		f()
	}
}

// leaveWays are how an asker leaves. A circuit that comes through another relay is cut off there.
var leaveWays = map[string]func(w *leaveWorld, a *asker){
	"END": func(w *leaveWorld, a *asker) {
		e := cell.End{Reason: cell.EndMisc}
		a.says(w, cell.RelayEnd, a.id, e.Append(nil))
	},
	"DESTROY": func(_ *leaveWorld, a *asker) {
		if e := a.raw; e != nil {
			e.p.write(cell.AppendFixed(nil, e.id, cell.CmdDestroy, []byte{byte(cell.DestroyNone)}), false)
			return
		}
		a.circ.Close(cell.DestroyNone, errLeaves)
	},
	"TRUNCATE": func(w *leaveWorld, a *asker) {
		if e := a.raw; e != nil {
			e.p.write(e.message(0, false, byte(cell.RelayTruncate), 0, 0, nil), false)
			return
		}
		if err := a.circ.Hops()[0].Send(cell.RelayTruncate, 0, nil); err != nil {
			w.t.Fatal(err)
		}
	},
	"the link": func(w *leaveWorld, a *asker) {
		if a.raw != nil {
			a.raw.p.close()
			return
		}
		for _, ch := range w.middle.Channels.Channels() {
			if ch.Peer().RSA == w.relay.Target.RSA {
				ch.Close(errors.New("the test ends the link"))
			}
		}
	},
}

// load is what the world does and holds.
func (w *leaveWorld) load(memory bool) string {
	var out []string
	add := func(name string, n int) {
		if n != 0 {
			out = append(out, fmt.Sprintf("%s: %d", name, n))
		}
	}
	places, asking := w.exit.Held()
	intro, rend := w.relay.Server.HSPoints()
	add("places at the exit", places)
	add("lookups", asking)
	add("streams of the exit", int(w.exits.Streams.Load()))
	add("requests to the directory", int(w.dir.Stats().Open.Load()))
	add("extends that wait", w.relay.Server.Dialling())
	add("circuits", int(w.relay.Circuits.Circuits.Load()))
	add("conflux sets", w.relay.Server.ConfluxSets())
	add("introduction points", intro)
	add("rendezvous that wait", rend)
	add("circuits at the next relay", w.next.unclosed())
	if memory {
		add("bytes", int(w.memory.Used()))
	}
	if w.service != nil {
		s := w.service.Status()
		add("circuits of the service", s.Circuits)
		add("streams of the service", s.Streams)
	}
	waiting, open := w.net.Waiting(), w.net.Open()
	for _, d := range slices.SortedFunc(maps.Keys(waiting), compareDials) {
		add(fmt.Sprintf("dials from %v to %v", d.From, d.To), waiting[d])
	}
	for _, d := range slices.SortedFunc(maps.Keys(open), compareDials) {
		add(fmt.Sprintf("connections from %v to %v", d.From, d.To), open[d])
	}
	started := goroutines()
	for _, by := range slices.Sorted(maps.Keys(started)) {
		add("goroutines in "+by, started[by])
	}
	return strings.Join(out, "\n")
}

// goroutines counts those of this world by what they run.
func goroutines() map[string]int {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	out := map[string]int{}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if head, _, _ := strings.Cut(stack, "\n"); !strings.Contains(head, "synctest bubble") {
			continue
		}
		runs := ""
		for line := range strings.SplitSeq(stack, "\n") {
			if strings.HasPrefix(line, "created by ") {
				break
			}
			if i := strings.LastIndexByte(line, '('); i > 0 && line[0] != '\t' && !strings.HasPrefix(line, "sync.") {
				runs = line[:i]
			}
		}
		out[runs]++
	}
	return out
}

func compareDials(a, b simnet.Dialled) int {
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

// unclosed counts the circuits to a hostile relay whose other end has not closed them.
func (r *relaySide) unclosed() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.ends {
		e.mu.Lock()
		if !e.dead && !e.p.closed() {
			n++
		}
		e.mu.Unlock()
	}
	return n
}

// finish ends the world, in which nothing may be left.
func (w *leaveWorld) finish() {
	close(w.gate)
	if w.service != nil {
		w.service.Close()
	}
	w.links.Close()
	later(time.Minute)
	for _, r := range []*simnet.Relay{w.middle, w.other, w.relay} {
		r.Stop()
	}
	w.next.close()
	w.exit.Close()
	_ = w.nobody.Close()
	later(0)
	if n := w.memory.Used(); n != 0 {
		w.t.Errorf("%d bytes are left on the account", n)
	}
}

// leaveHost is the network of the onion service: all its circuits lead to the one relay.
type leaveHost struct{ w *leaveWorld }

func (n leaveHost) Directory() (*netdir.Directory, <-chan struct{}) { return n.w.onions, nil }
func (n leaveHost) Build(context.Context, paths.Spec) (*circuit.Circuit, uint64, error) {
	c, err := n.w.circuit(n.w.other, circuit.HopOptions{Congestion: true, CGO: true})
	return c, 1, err
}
func (n leaveHost) ToDirectory(ctx context.Context, _ linkspec.Target) (*circuit.Circuit, uint64, error) {
	return n.Build(ctx, paths.Spec{})
}
func (n leaveHost) To(ctx context.Context, _ linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	return n.Build(ctx, paths.Spec{})
}
func (leaveHost) Met() {}
func (leaveHost) Flow() (*flow.Params, bool) {
	p := flow.DefaultParams()
	return &p, true
}
func (leaveHost) Refused(*linkspec.Target) error { return nil }
func (leaveHost) Knows(*linkspec.Target) bool    { return true }
func (leaveHost) Testing() bool                  { return true }

// leaveClient is the network of its clients: their rendezvous are on the askers' link, and what
// leads there is not.
type leaveClient struct{ w *leaveWorld }

type leaveCircuit struct{ *circuit.Circuit }

func (c leaveCircuit) Engine() *circuit.Circuit { return c.Circuit }
func (c leaveCircuit) ID() uint64               { return 1 }
func (c leaveCircuit) Last() linkspec.Target    { return *c.Circuit.Last().Info().Target }
func (c leaveCircuit) Close()                   { c.Circuit.Close(cell.DestroyNone, errLeaves) }

func (n leaveClient) Directory(context.Context) (*netdir.Directory, error) { return n.w.onions, nil }
func (n leaveClient) Internal(context.Context, bool) (hsclient.OwnedCircuit, error) {
	c, err := n.w.circuit(n.w.middle, circuit.HopOptions{Congestion: true, CGO: true})
	if err != nil {
		return nil, err
	}
	return leaveCircuit{c}, nil
}
func (n leaveClient) To(context.Context, linkspec.Target, []linkspec.Spec) (hsclient.OwnedCircuit, error) {
	c, err := n.w.circuit(n.w.other, circuit.HopOptions{Congestion: true, CGO: true})
	if err != nil {
		return nil, err
	}
	return leaveCircuit{c}, nil
}
func (leaveClient) Refused(*linkspec.Target) error { return nil }
func (leaveClient) Flow() (*flow.Params, bool)     { return leaveHost{}.Flow() }
