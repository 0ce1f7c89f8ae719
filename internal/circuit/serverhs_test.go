package circuit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/pace"
)

// hsEnd is the end of a circuit at a client or service, and what has come to it.
type hsEnd struct {
	r   *rig
	c   *Circuit
	got []cell.RelayMsg

	gate chan struct{} // not nil: what comes is taken once it is closed
}

// hsCircuit makes a circuit to the relay over a link.
func (r *rig) hsCircuit(link *channel.Channel, o HopOptions) *hsEnd {
	r.t.Helper()
	e := &hsEnd{r: r}
	e.c = r.circuitOver(link, o, func(_ *Hop, m cell.RelayMsg) {
		if e.gate != nil {
			<-e.gate
		}
		m.Data = bytes.Clone(m.Data)
		e.got = append(e.got, m)
	})
	return e
}

// say sends a message to the relay and waits for what comes of it.
func (e *hsEnd) say(cmd cell.RelayCommand, body []byte) {
	e.r.t.Helper()
	if err := e.c.Hops()[0].Send(cmd, 0, body); err != nil {
		e.r.t.Fatal(err)
	}
	synctest.Wait()
}

// heard checks which message came next, and returns its body.
func (e *hsEnd) heard(cmd cell.RelayCommand) []byte {
	e.r.t.Helper()
	if len(e.got) == 0 || e.got[0].Cmd != cmd {
		e.r.t.Fatalf("%v did not come: %v; %v", cmd, e.got, e.c.Err())
	}
	m := e.got[0]
	e.got = e.got[1:]
	return m.Data
}

// silent checks that nothing else came.
func (e *hsEnd) silent() {
	e.r.t.Helper()
	if len(e.got) > 0 {
		e.r.t.Errorf("unexpected: %v", e.got)
	}
}

func (e *hsEnd) lives() bool { return e.c.Err() == nil }

func (e *hsEnd) close() {
	e.c.Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
	synctest.Wait()
}

// establishIntro returns a message for an authentication key on a circuit.
func (e *hsEnd) establishIntro(key ed25519.PrivateKey, exts ...cell.Ext) []byte {
	m := cell.EstablishIntro{AuthKey: [32]byte(key.Public().(ed25519.PublicKey)), Exts: exts}
	kh := e.c.Hops()[0].Info().KH
	m.MAC = handshake.HSMAC(kh[:], m.AppendMACed(nil))
	copy(m.Sig[:], ed25519.Sign(key, append([]byte(cell.EstablishIntroSigPrefix), m.AppendSigned(nil)...)))
	return m.Append(nil)
}

// introduce1 returns a message for a key, of n bytes in all.
func introduction(key ed25519.PrivateKey, n int) []byte {
	m := cell.Introduce{AuthKey: [32]byte(key.Public().(ed25519.PublicKey))}
	b := m.AppendHeader(nil)
	return append(b, bytes.Repeat([]byte{7}, n-len(b))...)
}

func hsKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// introduced makes a circuit of one INTRODUCE1 and returns the relay's answer.
func (r *rig) introduced(body []byte) cell.IntroduceStatus {
	r.t.Helper()
	e := r.hsCircuit(r.beyond, congested)
	defer e.close()
	e.say(cell.RelayIntroduce1, body)
	ack, err := cell.ParseIntroduceAck(e.heard(cell.RelayIntroduceAck))
	if err != nil {
		r.t.Fatal(err)
	}
	e.silent()
	return ack.Status
}

// TestIntroduction: INTRODUCE1 goes to the service as it came, whatever relay crypto
// either circuit has.
func TestIntroduction(t *testing.T) {
	for name, o := range map[string][2]HopOptions{"tor1, CGO": {{}, congested}, "CGO, tor1": {congested, {}}, "ntor, tor1": {{Handshake: handshake.Ntor}, {}}} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				key := hsKey(t)
				service := r.hsCircuit(r.client, o[0]) // a single onion service has one hop
				service.say(cell.RelayEstablishIntro, service.establishIntro(key))
				if b := service.heard(cell.RelayIntroEstablished); !bytes.Equal(b, []byte{0}) {
					t.Errorf("INTRO_ESTABLISHED is %x", b)
				}
				client := r.hsCircuit(r.beyond, o[1])
				body := introduction(key, cell.RelayV1.MaxData(false))
				client.say(cell.RelayIntroduce1, body)
				if b := client.heard(cell.RelayIntroduceAck); !bytes.Equal(b, []byte{0, 0, 0}) {
					t.Errorf("INTRODUCE_ACK is %x", b)
				}
				if b := service.heard(cell.RelayIntroduce2); !bytes.Equal(b, body) {
					t.Errorf("INTRODUCE2 is %x, not %x", b, body)
				}
				client.silent()
				service.silent()
				if n := r.server.cfg.Stats.Introductions.Load(); n != 1 {
					t.Errorf("%d introductions are counted", n)
				}
				service.close()
				client.close()
				r.nothingLeft(name)
			})
		})
	}
}

// TestIntroductionRefused: what a client is told that can't be introduced. Its circuit
// lives on and can be extended.
func TestIntroductionRefused(t *testing.T) {
	key, other := hsKey(t), hsKey(t)
	legacy := introduction(key, 300)
	legacy[3] = 1
	odd := introduction(key, 300)
	odd[20] = 3 // the key's type
	for name, x := range map[string]struct {
		body []byte
		want cell.IntroduceStatus
	}{
		"unknown key":           {introduction(other, 300), cell.IntroduceNotRecognized},
		"too long for CGO":      {introduction(key, 491), cell.IntroduceBadFormat},
		"empty":                 {nil, cell.IntroduceBadFormat},
		"nothing is encrypted":  {introduction(key, 56), cell.IntroduceBadFormat},
		"of version 2":          {legacy, cell.IntroduceBadFormat},
		"unknown type of key":   {odd, cell.IntroduceBadFormat},
		"extensions do not end": {append(introduction(key, 56)[:55], 9, 1), cell.IntroduceBadFormat},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				service := r.hsCircuit(r.beyond, HopOptions{})
				service.say(cell.RelayEstablishIntro, service.establishIntro(key))
				service.heard(cell.RelayIntroEstablished)
				client := r.hsCircuit(r.beyond, HopOptions{})
				client.say(cell.RelayIntroduce1, x.body)
				ack, err := cell.ParseIntroduceAck(client.heard(cell.RelayIntroduceAck))
				if err != nil || ack.Status != x.want {
					t.Errorf("%v, %v; want %v", ack.Status, err, x.want)
				}
				service.silent()
				// A target that is none of the links' ends.
				far := r.next
				far.RelayID = identityOfNobody
				specs := extend2(far.Specs(), cell.HandshakeNtorV3, 100)
				if err := client.c.Last().SendEarly(cell.RelayExtend2, 0, specs); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if n := len(r.atNext()); n != 1 || !client.lives() {
					t.Errorf("the client is not extended: %d circuits, %v", n, client.c.Err())
				}
				service.close()
				client.close()
				r.nothingLeft(name)
			})
		})
	}
}

var identityOfNobody = linkspec.Target{}.RelayID

func init() { identityOfNobody.RSA[0], identityOfNobody.Ed[0] = 1, 1 }

// TestNewestIntroWins: a second circuit with the key of another one replaces that,
// which closes. The end of the old one does not take the new one away.
func TestNewestIntroWins(t *testing.T) {
	onRig(t, func(r *rig) {
		key := hsKey(t)
		old, now := r.hsCircuit(r.beyond, congested), r.hsCircuit(r.client, congested)
		for _, e := range []*hsEnd{old, now} {
			e.say(cell.RelayEstablishIntro, e.establishIntro(key))
			e.heard(cell.RelayIntroEstablished)
		}
		if old.lives() || !now.lives() {
			t.Fatalf("old: %v, new: %v", old.c.Err(), now.c.Err())
		}
		if got := r.introduced(introduction(key, 300)); got != cell.IntroduceOK {
			t.Error(got)
		}
		now.heard(cell.RelayIntroduce2)
		now.close()
		if got := r.introduced(introduction(key, 300)); got != cell.IntroduceNotRecognized {
			t.Errorf("after the end: %v", got)
		}
		r.nothingLeft("two")
	})
}

// TestIntroDefense: the consensus limits introductions, and the service's own limits
// come before that.
func TestIntroDefense(t *testing.T) {
	dos := func(rate, burst int64) cell.Ext {
		m := cell.IntroDoS{RatePerSec: rate, BurstPerSec: burst}
		return m.Ext()
	}
	for name, x := range map[string]struct {
		on   bool // by the consensus: 1 a second, 3 at once
		exts []cell.Ext
		want int // introductions at once, of 6
	}{
		"off":                         {false, nil, 6},
		"by the consensus":            {true, nil, 3},
		"by the service":              {false, []cell.Ext{dos(1, 2)}, 2},
		"by both":                     {true, []cell.Ext{dos(1, 4)}, 4},
		"turned off by the service":   {true, []cell.Ext{dos(0, 0)}, 6},
		"a burst below the rate":      {true, []cell.Ext{dos(5, 4)}, 6},
		"a parameter is missing":      {true, []cell.Ext{dos(5, -1)}, 6},
		"unknown extension":           {true, []cell.Ext{{Type: 9, Body: []byte{1}}}, 3},
		"an extension without an end": {true, []cell.Ext{{Type: cell.ExtIntroDoS, Body: []byte{3, 1}}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.server.cfg.HS = func() HSParams {
					return HSParams{IntroDefense: x.on, Intro: pace.Limit{Rate: 1, Burst: 3}}
				}
				key := hsKey(t)
				service := r.hsCircuit(r.beyond, congested)
				service.say(cell.RelayEstablishIntro, service.establishIntro(key, x.exts...))
				service.heard(cell.RelayIntroEstablished)
				count := func() (n int) {
					for range 6 {
						if r.introduced(introduction(key, 300)) == cell.IntroduceOK {
							n++
						}
					}
					return n
				}
				if n := count(); n != x.want {
					t.Errorf("%d introductions, not %d", n, x.want)
				}
				time.Sleep(time.Second) // virtual
				if n, want := count(), min(x.want, 1); x.want < 6 && n != want {
					t.Errorf("%d introductions after a second, not %d", n, want)
				}
				service.close()
				r.nothingLeft(name)
			})
		})
	}
}

// TestHostileOnions: each message that a relay can't take destroys the circuit that it
// came on, and nothing else.
func TestHostileOnions(t *testing.T) {
	key := hsKey(t)
	cookie := bytes.Repeat([]byte{5}, cell.CookieLen)
	intro := func(e *hsEnd) { e.say(cell.RelayEstablishIntro, e.establishIntro(key)) }
	changed := func(i int) func(e *hsEnd) {
		return func(e *hsEnd) {
			b := e.establishIntro(key)
			b[i] ^= 1
			e.say(cell.RelayEstablishIntro, b)
		}
	}
	say := func(cmd cell.RelayCommand, body []byte) func(e *hsEnd) {
		return func(e *hsEnd) { e.say(cmd, body) }
	}
	rend := say(cell.RelayEstablishRendezvous, cookie)
	extended := func(e *hsEnd) {
		far := e.r.next
		far.RelayID = identityOfNobody
		if err := e.c.Last().SendEarly(cell.RelayExtend2, 0, extend2(far.Specs(), cell.HandshakeNtorV3, 100)); err != nil {
			e.r.t.Fatal(err)
		}
		synctest.Wait()
	}
	linked := func(e *hsEnd) { e.r.linkSet(e.c) }
	introduce := say(cell.RelayIntroduce1, introduction(key, 300))
	join := say(cell.RelayRendezvous1, append([]byte(nil), cookie...))
	for name, x := range map[string]struct {
		do   []func(e *hsEnd)
		want string
	}{
		"ESTABLISH_INTRO without a body": {[]func(*hsEnd){say(cell.RelayEstablishIntro, nil)}, "ESTABLISH_INTRO"},
		"ESTABLISH_INTRO, cut":           {[]func(*hsEnd){say(cell.RelayEstablishIntro, make([]byte, 100))}, "ESTABLISH_INTRO"},
		"another key":                    {[]func(*hsEnd){changed(3)}, "MAC"},
		"wrong MAC":                      {[]func(*hsEnd){changed(40)}, "MAC"},
		"wrong signature":                {[]func(*hsEnd){changed(80)}, "signature"},
		"ESTABLISH_INTRO of another circuit": {[]func(*hsEnd){func(e *hsEnd) {
			e.say(cell.RelayEstablishIntro, e.r.hsCircuit(e.r.client, congested).establishIntro(key))
		}}, "MAC"},
		"ESTABLISH_INTRO twice":                  {[]func(*hsEnd){intro, intro}, "ESTABLISH_INTRO"},
		"ESTABLISH_INTRO on an extended circuit": {[]func(*hsEnd){extended, intro}, "ESTABLISH_INTRO"},
		"ESTABLISH_INTRO on a conflux leg":       {[]func(*hsEnd){linked, intro}, "ESTABLISH_INTRO"},
		"EXTEND2 by a service":                   {[]func(*hsEnd){intro, extended}, "EXTEND2"},
		"CONFLUX_LINK by a service":              {[]func(*hsEnd){intro, func(e *hsEnd) { m := cell.ConfluxLink{}; e.say(cell.RelayConfluxLink, m.Append(nil)) }}, "CONFLUX_LINK"},
		"rendezvous at the service's circuit":    {[]func(*hsEnd){intro, rend}, "ESTABLISH_RENDEZVOUS"},
		"INTRODUCE1 from the service":            {[]func(*hsEnd){intro, introduce}, "INTRODUCE1"},
		"INTRODUCE1 twice":                       {[]func(*hsEnd){introduce, introduce}, "second INTRODUCE1"},
		"INTRODUCE1 on an extended circuit":      {[]func(*hsEnd){extended, introduce}, "INTRODUCE1"},
		"a cookie too short":                     {[]func(*hsEnd){say(cell.RelayEstablishRendezvous, cookie[1:])}, "ESTABLISH_RENDEZVOUS"},
		"a cookie too long":                      {[]func(*hsEnd){say(cell.RelayEstablishRendezvous, append(cookie, 1))}, "21 bytes"},
		"a cookie twice":                         {[]func(*hsEnd){rend, rend}, "ESTABLISH_RENDEZVOUS"},
		"a cookie on an extended circuit":        {[]func(*hsEnd){extended, rend}, "ESTABLISH_RENDEZVOUS"},
		"EXTEND2 at a rendezvous":                {[]func(*hsEnd){rend, extended}, "EXTEND2"},
		"cells for nobody at a rendezvous":       {[]func(*hsEnd){rend, func(e *hsEnd) { e.junk(cell.CmdRelay) }}, "no hop recognises"},
		"RENDEZVOUS1 without a client":           {[]func(*hsEnd){join}, "no circuit waits"},
		"RENDEZVOUS1, cut":                       {[]func(*hsEnd){say(cell.RelayRendezvous1, cookie[1:])}, "RENDEZVOUS1"},
		"RENDEZVOUS1 by the client itself":       {[]func(*hsEnd){rend, join}, "RENDEZVOUS1"},
		"RENDEZVOUS1 on an extended circuit":     {[]func(*hsEnd){extended, join}, "RENDEZVOUS1"},
		"INTRODUCE2 from a client":               {[]func(*hsEnd){say(cell.RelayIntroduce2, nil)}, "INTRODUCE2"},
		"RENDEZVOUS2 from a client":              {[]func(*hsEnd){say(cell.RelayRendezvous2, nil)}, "RENDEZVOUS2"},
		"an answer from a client":                {[]func(*hsEnd){say(cell.RelayIntroEstablished, []byte{0})}, "INTRO_ESTABLISHED"},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				bystander := r.hsCircuit(r.beyond, HopOptions{})
				e := r.hsCircuit(r.beyond, congested)
				at := r.last()
				for _, f := range x.do {
					if !e.lives() {
						t.Fatalf("it ended too early: %v", at.Err())
					}
					f(e)
				}
				if err := at.Err(); !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), x.want) {
					t.Errorf("%v; want %q", err, x.want)
				}
				if e.lives() || !bystander.lives() {
					t.Errorf("the circuit: %v, another: %v", e.c.Err(), bystander.c.Err())
				}
				bystander.close()
				for _, c := range r.accepted {
					c.Close(cell.DestroyNone, nil)
				}
				synctest.Wait()
				r.nothingLeft(name)
			})
		})
	}
}

// TestSingleHopClients: a client without a relay before this one can't introduce
// itself, and gets no rendezvous point where the consensus says so.
func TestSingleHopClients(t *testing.T) {
	onRig(t, func(r *rig) {
		r.server.cfg.HS = func() HSParams { return HSParams{RefuseSingleHop: true} }
		key := hsKey(t)
		e := r.hsCircuit(r.client, congested)
		e.say(cell.RelayIntroduce1, introduction(key, 300))
		if err := r.last().Err(); e.lives() || !strings.Contains(err.Error(), "one hop") {
			t.Error("INTRODUCE1 over one hop: ", err)
		}
		e = r.hsCircuit(r.client, congested)
		e.say(cell.RelayEstablishRendezvous, make([]byte, cell.CookieLen))
		e.silent()
		if _, n := r.server.HSPoints(); n != 0 || !e.lives() {
			t.Errorf("%d circuits wait; %v", n, e.c.Err())
		}
		far := r.hsCircuit(r.beyond, congested)
		far.say(cell.RelayEstablishRendezvous, make([]byte, cell.CookieLen))
		far.heard(cell.RelayRendezvousEstablished)
		e.close()
		far.close()
		r.nothingLeft("single hop")
	})
}

// TestCookieInUse: a second circuit with a cookie that another one waits with closes,
// and the first waits on.
func TestCookieInUse(t *testing.T) {
	onRig(t, func(r *rig) {
		cookie := make([]byte, cell.CookieLen)
		a, b := r.hsCircuit(r.beyond, congested), r.hsCircuit(r.client, congested)
		for _, e := range []*hsEnd{a, b} {
			e.say(cell.RelayEstablishRendezvous, cookie)
		}
		if !a.lives() || b.lives() {
			t.Errorf("the first: %v, the second: %v", a.c.Err(), b.c.Err())
		}
		service := r.hsCircuit(r.beyond, congested)
		service.say(cell.RelayRendezvous1, append(cookie, 1, 2))
		a.heard(cell.RelayRendezvousEstablished)
		if got := a.heard(cell.RelayRendezvous2); !bytes.Equal(got, []byte{1, 2}) {
			t.Errorf("RENDEZVOUS2 is %x", got)
		}
		late := r.hsCircuit(r.beyond, congested) // the cookie is used up
		late.say(cell.RelayRendezvous1, cookie)
		if late.lives() || !a.lives() || !service.lives() {
			t.Errorf("late: %v, joined: %v, %v", late.c.Err(), a.c.Err(), service.c.Err())
		}
		a.close()
		if service.lives() {
			t.Error("the service's circuit outlives the client's")
		}
		r.nothingLeft("cookies")
	})
}

// hsSteps bring circuits of onion services into each step.
var hsSteps = map[string]func(r *rig) []*hsEnd{
	"introduction point": func(r *rig) []*hsEnd {
		e := r.hsCircuit(r.beyond, congested)
		e.say(cell.RelayEstablishIntro, e.establishIntro(hsKey(r.t)))
		return []*hsEnd{e}
	},
	"introduced": func(r *rig) []*hsEnd {
		key := hsKey(r.t)
		service, client := r.hsCircuit(r.client, congested), r.hsCircuit(r.beyond, congested)
		service.say(cell.RelayEstablishIntro, service.establishIntro(key))
		client.say(cell.RelayIntroduce1, introduction(key, 300))
		return []*hsEnd{service, client}
	},
	"waits": func(r *rig) []*hsEnd {
		e := r.hsCircuit(r.client, congested)
		e.say(cell.RelayEstablishRendezvous, make([]byte, cell.CookieLen))
		return []*hsEnd{e}
	},
	"joined": func(r *rig) []*hsEnd {
		client, service := r.joined(congested, congested)
		return []*hsEnd{client, service}
	},
	"joined, service nearer": func(r *rig) []*hsEnd {
		client, service := r.joined(congested, HopOptions{})
		return []*hsEnd{service, client}
	},
}

// TestOnionEndings: whichever end goes, and however, the relay is left with nothing.
func TestOnionEndings(t *testing.T) {
	closing := fault.New(fault.Closed, "test")
	for _, step := range slices.Sorted(maps.Keys(hsSteps)) {
		for name, end := range map[string]func(r *rig, all []*hsEnd){
			"DESTROY": func(r *rig, all []*hsEnd) { all[0].close() },
			"violation": func(r *rig, all []*hsEnd) {
				all[0].say(cell.RelayIntroduce2, nil)
			},
			"both links close": func(r *rig, all []*hsEnd) {
				r.client.Close(closing)
				r.beyond.Close(closing)
			},
			"one link closes": func(r *rig, all []*hsEnd) { all[0].c.Channel().Close(closing) },
			"the relay's link closes": func(r *rig, all []*hsEnd) {
				r.home.Close(closing)
				r.onward.Close(closing)
			},
		} {
			t.Run(step+"/"+name, func(t *testing.T) {
				onRig(t, func(r *rig) {
					all := hsSteps[step](r)
					end(r, all)
					synctest.Wait()
					if all[0].lives() {
						t.Error("the circuit lives")
					}
					if len(all) == 2 && strings.HasPrefix(step, "joined") && all[1].lives() {
						t.Error("the other half lives")
					}
					for _, e := range all {
						e.close()
					}
					if left := r.left(); len(left) > 0 {
						t.Error(left)
					}
				})
			})
		}
	}
}
