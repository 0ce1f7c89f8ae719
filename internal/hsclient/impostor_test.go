package hsclient

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// hopTaker takes the relay's end of each circuit on which a stream begins.
type hopTaker chan *circuit.Hop

func (h hopTaker) HandleStream(hop *circuit.Hop, m cell.RelayMsg) error {
	h <- hop
	return nil
}

// impostor is a client's circuit to a rendezvous point that can say at any time what it likes.
type impostor struct {
	t    *testing.T
	c    *Client
	s    *madeService
	rend *rendCircuit
	hop  *circuit.Hop // the point's end
	next *draft
}

func newImpostor(t *testing.T) *impostor {
	t.Helper()
	hops := make(hopTaker, 1)
	n := newRealNet(t, simnet.Options{Streams: hops})
	c := newClient(t, &n.fakeNet)
	circ, err := n.Internal(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(circ.Close)
	if _, err := stream.BeginDir(circ.Engine().Last()); err != nil {
		t.Fatal(err)
	}
	return &impostor{t: t, c: c, s: newService(t), rend: newRendCircuit(circ), hop: <-hops}
}

// say has the point send a message. The client may have ended the circuit for the one before.
func (i *impostor) say(cmd cell.RelayCommand, id uint16, body []byte) {
	i.t.Helper()
	if err := i.hop.Send(cmd, id, body); err != nil && !fault.Is(err, fault.Closed) {
		i.t.Fatal(err)
	}
}

func (i *impostor) establish() {
	i.t.Helper()
	if err := i.rend.establish(i.t.Context()); err != nil {
		i.t.Fatal(err)
	}
}

// arm makes an introduction, and has the client wait for its answer.
func (i *impostor) arm() {
	i.t.Helper()
	desc := &cached{inner: &i.s.inner, blinded: i.s.blinded, subcredential: i.s.subcredential}
	d, err := i.c.draft(desc, &i.s.inner.Points[0], i.rend, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	if err := i.rend.arm(d.hs, d.terms); err != nil {
		i.t.Fatal(err)
	}
	i.next = d
}

// service returns what the true service answers to the introduction.
func (i *impostor) service() []byte {
	i.t.Helper()
	m, err := cell.ParseIntroduce(i.next.body)
	if err != nil {
		i.t.Fatal(err)
	}
	st, _, err := handshake.HSNtorOpen(i.s.enc, m.AuthKey, [][32]byte{i.s.subcredential}, m.Header, m.Encrypted)
	if err != nil {
		i.t.Fatal(err)
	}
	reply, _, err := st.Reply(rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	return append(reply, make([]byte, 84)...)
}

// guessed returns the best answer of a point that does not have the service's keys: it hopes
// that the client has none either, so that the keys which both should have made are zeros.
func (i *impostor) guessed() []byte {
	i.t.Helper()
	nobody, err := handshake.NtorKeyPairFromSecret(make([]byte, 32))
	if err != nil {
		i.t.Fatal(err)
	}
	client, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: nobody.Public(), Auth: i.s.inner.Points[0].Auth, Subcredential: i.s.subcredential})
	if err != nil {
		i.t.Fatal(err)
	}
	st, _, err := handshake.HSNtorOpen(nobody, i.s.inner.Points[0].Auth, [][32]byte{i.s.subcredential}, nil, client.Introduce(nil, make([]byte, 10)))
	if err != nil {
		i.t.Fatal(err)
	}
	reply, _, err := st.Reply(rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	return reply
}

// TestRendezvousPointIsNoService: whatever a rendezvous point sends at the wrong moment ends
// the circuit, and makes no hop that the client would take for the service.
func TestRendezvousPointIsNoService(t *testing.T) {
	for name, x := range map[string]struct {
		do   func(i *impostor)
		hops int // virtual ones that there are before the circuit ends
	}{
		"ESTABLISHED that nobody asked for": {func(i *impostor) { i.say(cell.RelayRendezvousEstablished, 0, nil) }, 0},
		"ESTABLISHED twice": {func(i *impostor) {
			i.establish()
			i.say(cell.RelayRendezvousEstablished, 0, nil)
		}, 0},
		"RENDEZVOUS2 before all": {func(i *impostor) { i.say(cell.RelayRendezvous2, 0, i.guessed()) }, 0},
		"ESTABLISHED and RENDEZVOUS2 in one": {func(i *impostor) {
			i.say(cell.RelayRendezvousEstablished, 0, nil)
			i.say(cell.RelayRendezvous2, 0, i.guessed())
		}, 0},
		"RENDEZVOUS2 before an introduction": {func(i *impostor) {
			i.establish()
			i.say(cell.RelayRendezvous2, 0, i.guessed())
		}, 0},
		"RENDEZVOUS2 of zeros": {func(i *impostor) {
			i.establish()
			i.arm()
			i.say(cell.RelayRendezvous2, 0, make([]byte, 148))
		}, 0},
		"RENDEZVOUS2 with guessed keys": {func(i *impostor) {
			i.establish()
			i.arm()
			i.say(cell.RelayRendezvous2, 0, i.guessed())
		}, 0},
		"RENDEZVOUS2, empty": {func(i *impostor) {
			i.establish()
			i.arm()
			i.say(cell.RelayRendezvous2, 0, nil)
		}, 0},
		"RENDEZVOUS2 of an introduction that was taken back": {func(i *impostor) {
			i.establish()
			i.arm()
			answer := i.service()
			if !i.rend.disarm() {
				i.t.Error("it cannot be taken back")
			}
			i.say(cell.RelayRendezvous2, 0, answer)
		}, 0},
		"RENDEZVOUS2 of the introduction before": {func(i *impostor) {
			i.establish()
			i.arm()
			answer := i.service()
			i.rend.disarm()
			i.arm()
			i.say(cell.RelayRendezvous2, 0, answer)
		}, 0},
		"RENDEZVOUS2 twice": {func(i *impostor) {
			i.establish()
			i.arm()
			answer := i.service()
			i.say(cell.RelayRendezvous2, 0, answer)
			i.say(cell.RelayRendezvous2, 0, answer)
		}, 1},
		"CONNECTED before the service": {func(i *impostor) {
			i.establish()
			i.say(cell.RelayConnected, 77, nil)
		}, 0},
		"DATA before the service": {func(i *impostor) {
			i.establish()
			i.arm()
			i.say(cell.RelayData, 77, []byte("hello"))
		}, 0},
		"CONNECTED in place of the service": {func(i *impostor) { i.speakFor(cell.RelayConnected, nil) }, 1},
		"DATA in place of the service":      {func(i *impostor) { i.speakFor(cell.RelayData, []byte("hello")) }, 1},
		"END in place of the service":       {func(i *impostor) { i.speakFor(cell.RelayEnd, []byte{6}) }, 1},
		"BEGIN to the client": {func(i *impostor) {
			i.establish()
			i.say(cell.RelayBegin, 77, []byte(":80\x00"))
		}, 0},
		"INTRODUCE_ACK": {func(i *impostor) {
			i.establish()
			i.arm()
			i.say(cell.RelayIntroduceAck, 0, []byte{0, 0, 0})
		}, 0},
		"EXTENDED2": {func(i *impostor) {
			i.establish()
			i.say(cell.RelayExtended2, 0, make([]byte, 66))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImpostor(t)
			x.do(i)
			engine := i.rend.circ.Engine()
			select {
			case <-engine.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("the circuit lives")
			}
			if err := engine.Err(); !fault.Is(err, fault.Protocol) {
				t.Error(err)
			}
			virtual := 0
			for _, h := range engine.Hops() {
				if h.Info().Onion {
					virtual++
				}
			}
			if virtual != x.hops || len(i.rend.joined) > x.hops {
				t.Errorf("%d virtual hops; met %d", virtual, len(i.rend.joined))
			}
		})
	}
}

// hears is a stream that must hear nothing.
type hears struct{ t *testing.T }

func (h hears) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	h.t.Errorf("the stream hears %v", m.Cmd)
	return nil
}
func (hears) Flush()                   {}
func (hears) HandleCircuitClose(error) {}

// speakFor has the point send a message of a stream that the client has begun on the service's
// hop.
func (i *impostor) speakFor(cmd cell.RelayCommand, body []byte) {
	i.t.Helper()
	i.establish()
	i.arm()
	i.say(cell.RelayRendezvous2, 0, i.service())
	hop := <-i.rend.joined
	var id uint16
	if err := hop.OpenStream(func(n uint16) circuit.StreamReceiver { id = n; return hears{i.t} }); err != nil {
		i.t.Fatal(err)
	}
	i.say(cmd, id, body)
}

// TestKeyOfTheNextPoint: the introduction that follows a refused one names the authentication
// key of the point to which it goes, and the service there can read it.
func TestKeyOfTheNextPoint(t *testing.T) {
	n := newRealNet(t, simnet.Options{})
	c := newClient(t, &n.fakeNet)
	c.cfg.Network, c.cfg.Private = n, true
	s := newService(t)
	_, auth, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// The first point's key is nobody's. The second one's is the service's.
	second := s.inner.Points[0]
	second.Auth = cert.IdentityOf(auth)
	s.inner.Points = append(s.inner.Points, second)
	arrived := make(chan []byte, 2)
	host, err := n.To(t.Context(), n.relay.Target, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	last := host.Engine().Last()
	last.Handle(cell.RelayIntroduce2, func(m cell.RelayMsg) error {
		arrived <- append([]byte(nil), m.Data...)
		return nil
	})
	if err := establishAt(t.Context(), last, auth); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	desc := &cached{inner: &s.inner, blinded: s.blinded, subcredential: s.subcredential}
	h := c.history(s.id)
	a := newRace(h, []*netdoc.HSIntroPoint{&s.inner.Points[1]}, nil)
	over := make(chan outcome, 1)
	go func() { over <- c.attempt(ctx, a, &s.inner.Points[0], desc, false) }()
	var body []byte
	select {
	case body = <-arrived:
	case <-time.After(time.Minute):
		t.Fatal("nothing arrives")
	}
	m, err := cell.ParseIntroduce(body)
	if err != nil || m.AuthKey != second.Auth {
		t.Fatalf("it is for %x, %v", m.AuthKey, err)
	}
	if _, _, err := handshake.HSNtorOpen(s.enc, second.Auth, [][32]byte{s.subcredential}, m.Header, m.Encrypted); err != nil {
		t.Error(err)
	}
	if !h.state(ident.Ed25519ID{9}).refused {
		t.Error("the first point has not refused")
	}
	cancel()
	<-over
}

// state returns what is noted of a point.
func (h *history) state(auth ident.Ed25519ID) pointState {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if s := h.points[auth]; s != nil {
		return *s
	}
	return pointState{}
}

// establishAt makes a circuit's last relay an introduction point.
func establishAt(ctx context.Context, h *circuit.Hop, auth ed25519.PrivateKey) error {
	m := cell.EstablishIntro{AuthKey: cert.IdentityOf(auth)}
	kh := h.Info().KH
	m.MAC = handshake.HSMAC(kh[:], m.AppendMACed(nil))
	m.Sig = [64]byte(ed25519.Sign(auth, m.AppendSigned([]byte(cell.EstablishIntroSigPrefix))))
	want, err := h.Expect(cell.RelayIntroEstablished)
	if err != nil {
		return err
	}
	if err := h.Send(cell.RelayEstablishIntro, 0, m.Append(nil)); err != nil {
		return errors.Join(err, fmt.Errorf("ESTABLISH_INTRO"))
	}
	_, _, err = want.Wait(ctx)
	return err
}
