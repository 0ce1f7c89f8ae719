package hostile

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
)

// entry is something that a peer can ask for, and what it takes.
type entry struct {
	// comes makes the asker; nil: one with a circuit to the relay.
	comes func(w *leaveWorld) *asker
	// asks begins the work.
	asks func(w *leaveWorld, a *asker)
	// stream says that the work is a stream's, which may end by itself.
	stream bool
}

// entries are all of them. A new one is a row.
var entries = map[string]entry{
	"exit: BEGIN, connecting":            {asks: func(w *leaveWorld, a *asker) { a.begins(w, leaveSilent.String()) }, stream: true},
	"exit: BEGIN, looking the name up":   {asks: func(w *leaveWorld, a *asker) { a.begins(w, "host.example:80") }, stream: true},
	"exit: BEGIN, connected":             {asks: func(w *leaveWorld, a *asker) { a.begins(w, leaveNobody.String()) }, stream: true},
	"exit: RESOLVE":                      {asks: func(w *leaveWorld, a *asker) { a.opens(w, cell.RelayResolve, []byte("host.example\x00")) }, stream: true},
	"exit: RESOLVE of an address":        {asks: func(w *leaveWorld, a *asker) { a.opens(w, cell.RelayResolve, []byte("1.0.2.192.in-addr.arpa\x00")) }, stream: true},
	"directory: BEGIN_DIR":               {asks: func(w *leaveWorld, a *asker) { a.opens(w, cell.RelayBeginDir, nil) }, stream: true},
	"directory: half a request":          {asks: func(w *leaveWorld, a *asker) { a.opens(w, cell.RelayBeginDir, nil, "GET /tor/") }, stream: true},
	"directory: half a descriptor":       {asks: func(w *leaveWorld, a *asker) { a.uploads(w, "/tor/hs/3/publish", 40000, 400) }, stream: true},
	"directory: an upload that waits":    {comes: (*leaveWorld).comesLate, asks: func(w *leaveWorld, a *asker) { a.uploads(w, "/tor/hs/3/publish", 400, 400) }, stream: true},
	"directory: an answer nobody reads":  {comes: (*leaveWorld).comesWindowed, asks: func(w *leaveWorld, a *asker) { a.opens(w, cell.RelayBeginDir, nil, "GET /long HTTP/1.0\r\n\r\n") }, stream: true},
	"extend: connecting":                 {comes: (*leaveWorld).comesRaw, asks: func(w *leaveWorld, a *asker) { a.extends(leaveSilent) }},
	"extend: the link's handshake":       {comes: (*leaveWorld).comesRaw, asks: func(w *leaveWorld, a *asker) { a.extends(leaveNobody) }},
	"extend: CREATE2 without an answer":  {comes: (*leaveWorld).comesRaw, asks: func(w *leaveWorld, a *asker) { a.extendsTo(w, answerNever) }},
	"extend: done":                       {comes: (*leaveWorld).comesRaw, asks: func(w *leaveWorld, a *asker) { a.extendsTo(w, answerRight) }},
	"conflux: a set of one leg":          {asks: func(w *leaveWorld, a *asker) { a.links(w) }},
	"introduction point":                 {asks: func(w *leaveWorld, a *asker) { a.establishesIntro(w) }},
	"rendezvous point: the client waits": {asks: func(w *leaveWorld, a *asker) { a.establishesRendezvous(w) }},
	"rendezvous point: the client, met":  {asks: func(w *leaveWorld, a *asker) { w.joins(a, w.comesBeside()) }},
	"rendezvous point: the service, met": {asks: func(w *leaveWorld, a *asker) { w.joins(w.comesBeside(), a) }},
	"onion service: a rendezvous":        {asks: (*leaveWorld).meetsInstead},
	"onion service: BEGIN, connecting":   {comes: (*leaveWorld).meets, asks: func(w *leaveWorld, a *asker) { a.begins(w, fmt.Sprint(":", portSilent)) }, stream: true},
	"onion service: BEGIN, connected":    {comes: (*leaveWorld).meets, asks: func(w *leaveWorld, a *asker) { a.begins(w, fmt.Sprint(":", portNobody)) }, stream: true},
	"onion service: waits for Accept":    {comes: (*leaveWorld).meets, asks: func(w *leaveWorld, a *asker) { a.begins(w, fmt.Sprint(":", portListened)) }, stream: true},
}

// TestWorkEndsWithItsAsker: what a peer makes a relay or an onion service do, and hold, ends within a
// second after the peer has left, by each way that it has. What there is then is compared with
// what an asker leaves behind that has asked for nothing.
func TestWorkEndsWithItsAsker(t *testing.T) {
	for _, needs := range []func() error{makeKeys, makeCompressors, makeLeaveNet} {
		if err := needs(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		for _, way := range slices.Sorted(maps.Keys(leaveWays)) {
			if way == "END" && !e.stream {
				continue
			}
			t.Run(name+", "+way, func(t *testing.T) {
				cryptotest.SetGlobalRandom(t, 1)
				synctest.Test(t, func(t *testing.T) {
					w := newLeaveWorld(t)
					defer w.finish()
					leaves(t, w, e, way)
				})
			})
		}
	}
}

// leaves has askers come, ask, and leave by a way.
func leaves(t *testing.T, w *leaveWorld, e entry, way string) {
	comes := e.comes
	if comes == nil {
		comes = (*leaveWorld).comes
	}
	memory := way != "END" // a circuit may remember streams that are over, up to bounds of its own
	// left returns what there is before an asker leaves, and a second after that.
	left := func(asks, leaves bool) (before, after string) {
		a := comes(w)
		later(0)
		if asks {
			e.asks(w, a)
		}
		later(time.Second)
		before = w.load(memory)
		if leaves {
			leaveWays[way](w, a)
		}
		later(time.Second)
		after = w.load(memory)
		a.ends()
		later(time.Minute)
		return before, after
	}
	left(true, true) // links that stay are there from now on
	idle, want := left(false, way != "END")
	busy, got := left(true, true)
	if busy == idle {
		t.Errorf("the asker asks for nothing:\n%s", busy)
	}
	if got != want {
		t.Errorf("a second after the asker has left there is:\n%s\nand without what it asked for:\n%s", got, want)
	}
}

// meetsInstead gives an asker a circuit to the onion service in the place of its own.
func (w *leaveWorld) meetsInstead(a *asker) {
	a.ends()
	*a = *w.meets()
}

// comesBeside returns an asker that does not leave, on another link.
func (w *leaveWorld) comesBeside() *asker {
	c, err := w.circuit(w.other, circuit.HopOptions{Congestion: true, CGO: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return &asker{circ: c, hop: c.Last()}
}

// comesWindowed returns an asker with fixed windows: nobody reads, so nobody opens them again.
func (w *leaveWorld) comesWindowed() *asker { return w.comesWith(circuit.HopOptions{}) }

// comesLate returns an asker that comes when others have all places of those that work on uploads.
func (w *leaveWorld) comesLate() *asker {
	w.crowd.Do(func() {
		for range crowd {
			w.comesBeside().uploads(w, "/slow", 10, 10)
		}
		later(time.Second)
	})
	return w.comes()
}

// crowd is more than work on uploads at once.
const crowd = 8

// uploads sends a part of an upload.
func (a *asker) uploads(w *leaveWorld, to string, length, part int) {
	a.opens(w, cell.RelayBeginDir, nil, fmt.Sprintf("POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n", to, length), string(make([]byte, part)))
}

// extends asks for a hop at an address.
func (a *asker) extends(to netip.AddrPort) {
	t := targetOf(nodeHostile2)
	t.Addrs = []netip.AddrPort{to}
	a.extend(t)
}

// extendsTo asks for a hop at a hostile relay that answers by a script.
func (a *asker) extendsTo(w *leaveWorld, script byte) {
	w.next.setScript(Insn{A: script})
	a.extend(w.next.target)
}

func (a *asker) extend(t linkspec.Target) {
	c := newCall(t, cell.HandshakeNtorV3, 0)
	m := cell.Extend2{Specs: linkspec.Append(nil, t.Specs()), Type: c.typ, Data: c.skin}
	body := m.Append(nil)
	a.raw.p.write(a.raw.message(0, true, byte(cell.RelayExtend2), 0, len(body), body), false)
}

// links makes a set of the circuit.
func (a *asker) links(w *leaveWorld) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := circuit.LinkConflux(ctx, []*circuit.Circuit{a.circ}, cell.ConfluxMinLatency); err != nil {
		w.t.Fatal(err)
	}
}

func (a *asker) establishesIntro(w *leaveWorld) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	kh := a.hop.Info().KH
	m := cell.EstablishIntro{AuthKey: [32]byte(public)}
	m.MAC = handshake.HSMAC(kh[:], m.AppendMACed(nil))
	copy(m.Sig[:], ed25519.Sign(key, append([]byte(cell.EstablishIntroSigPrefix), m.AppendSigned(nil)...)))
	want, err := a.hop.Expect(cell.RelayIntroEstablished)
	if err != nil {
		w.t.Fatal(err)
	}
	a.says(w, cell.RelayEstablishIntro, 0, m.Append(nil))
	if _, _, err := want.Wait(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (a *asker) establishesRendezvous(w *leaveWorld) {
	_, _ = rand.Read(a.cookie[:]) // never fails (crypto/rand)
	want, err := a.hop.Expect(cell.RelayRendezvousEstablished)
	if err != nil {
		w.t.Fatal(err)
	}
	a.says(w, cell.RelayEstablishRendezvous, 0, a.cookie[:])
	if _, _, err := want.Wait(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// joins joins a client and a service at the relay.
func (w *leaveWorld) joins(client, service *asker) {
	client.establishesRendezvous(w)
	client.hop.Handle(cell.RelayRendezvous2, func(cell.RelayMsg) error { return nil })
	service.says(w, cell.RelayRendezvous1, 0, append(client.cookie[:], make([]byte, 148)...))
}
