package circuit

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/pace"
)

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
