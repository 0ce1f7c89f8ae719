package circuit

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

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
	linkIt := func(e *hsEnd) { m := cell.ConfluxLink{}; e.say(cell.RelayConfluxLink, m.Append(nil)) }
	linked := func(e *hsEnd) { e.r.linkSet(e.c) }
	introduce := say(cell.RelayIntroduce1, introduction(key, 300))
	join := say(cell.RelayRendezvous1, append([]byte(nil), cookie...))
	waits := func(e *hsEnd) { e.r.hsCircuit(e.r.client, congested).say(cell.RelayEstablishRendezvous, cookie) }
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
		"a rendezvous point on a conflux leg":    {[]func(*hsEnd){linked, rend}, "ESTABLISH_RENDEZVOUS"},
		"RENDEZVOUS1 on a conflux leg":           {[]func(*hsEnd){waits, linked, join}, "RENDEZVOUS1"},
		"INTRODUCE1 on a conflux leg":            {[]func(*hsEnd){linked, introduce}, "INTRODUCE1"},
		"EXTEND2 on a conflux leg":               {[]func(*hsEnd){linked, extended}, "EXTEND2"},
		"CONFLUX_LINK on a conflux leg":          {[]func(*hsEnd){linked, linkIt}, "CONFLUX_LINK"},
		"CONFLUX_LINK at a rendezvous":           {[]func(*hsEnd){rend, linkIt}, "CONFLUX_LINK"},
		"CONFLUX_LINK by a service that came":    {[]func(*hsEnd){waits, join, linkIt}, "CONFLUX_LINK"},
		"EXTEND2 by a service":                   {[]func(*hsEnd){intro, extended}, "EXTEND2"},
		"CONFLUX_LINK on an extended circuit":    {[]func(*hsEnd){extended, linkIt}, "CONFLUX_LINK"},
		"CONFLUX_LINK by a service":              {[]func(*hsEnd){intro, linkIt}, "CONFLUX_LINK"},
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
				at := r.last() // the relay's end
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
