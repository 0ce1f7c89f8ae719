package circuit

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/protover"
)

// heardAt is a message, and when it came.
type heardAt struct {
	cell.RelayMsg
	at time.Time
}

// clear is the relay crypto of a hop that the test leaves out.
type clear struct{}

func (clear) Originate(cell.Command, *[cell.PayloadLen]byte) {}
func (clear) Encrypt(cell.Command, *[cell.PayloadLen]byte)   {}
func (clear) Tag() []byte                                    { return nil }
func (clear) Open(cell.Command, *[cell.PayloadLen]byte) bool { return false }

// padded is a client's circuit of two hops, the second of which is relay. It notes what
// comes to either end.
type padded struct {
	r             *rig
	client, relay *Circuit
	up, down      []heardAt // to the relay, to the client
}

func (r *rig) padded(proto string) *padded {
	r.t.Helper()
	p := &padded{r: r}
	p.client, p.relay = r.spliced()
	note := func(to *[]heardAt, next messageHandler) messageHandler {
		return func(h *Hop, m cell.RelayMsg, cc cell.Command) error {
			seen := m
			seen.Data = bytes.Clone(m.Data)
			*to = append(*to, heardAt{seen, time.Now()})
			return next(h, m, cc)
		}
	}
	p.client.handle = note(&p.down, fromRelay)
	p.relay.handle = note(&p.up, fromClient)
	r.server.own(p.relay)
	p.relay.earlyIn = relayEarlyBudget
	set, err := protover.Parse(proto)
	if err != nil {
		r.t.Fatal(err)
	}
	params := flow.DefaultParams()
	keys := make([]byte, 1000)
	hop := func(c *Circuit, info HopInfo) *Hop {
		h, err := c.newHop(terms{keys: handshake.KeyStream(bytes.NewReader(keys)), crypto: tor1}, info, &params, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		c.addHop(h)
		return h
	}
	target := r.target
	target.Proto = set
	first := hop(p.client, HopInfo{Client: true})
	first.seal, first.open = clear{}, clear{}
	hop(p.client, HopInfo{Client: true, Target: &target})
	hop(p.relay, HopInfo{})
	return p
}

func (p *padded) ask(m cell.CircPaddingNegotiate) {
	p.r.t.Helper()
	if err := p.client.Hops()[1].Send(cell.RelayPaddingNegotiate, 0, m.Append(nil)); err != nil {
		p.r.t.Fatal(err)
	}
	synctest.Wait()
}

func (p *padded) close() {
	p.client.Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
	synctest.Wait()
}

func commands(list []heardAt) string {
	var s []string
	for _, m := range list {
		s = append(s, m.Cmd.String())
	}
	return strings.Join(s, " ")
}

// TestPaddingMachines: each end sends what C tor's sends, in its time, and nothing more.
func TestPaddingMachines(t *testing.T) {
	onRig(t, func(r *rig) {
		counts := map[int]bool{}
		for range 100 {
			p := r.padded("Padding=2")
			if !p.client.Pad(PadIntroduction) || !p.client.Padded() {
				t.Fatal("nothing began")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := commands(p.up); got != "PADDING_NEGOTIATE" {
				t.Fatal("to the relay:", got)
			}
			n := len(p.down) - 2
			counts[n] = true
			if want := "PADDING_NEGOTIATED" + strings.Repeat(" DROP", n) + " PADDING_NEGOTIATED"; commands(p.down) != want {
				t.Fatal("to the client:", commands(p.down))
			}
			for i, command := range []cell.PaddingCommand{cell.PaddingStart, cell.PaddingStop} {
				m, err := cell.ParseCircPaddingNegotiated(p.down[i*(n+1)].Data)
				if err != nil || m != (cell.CircPaddingNegotiated{Command: command, OK: true, Machine: 0, Counter: 1}) {
					t.Fatal(m, err)
				}
			}
			for i := 1; i <= n; i++ {
				if after := p.down[i].at.Sub(p.down[i-1].at); after < time.Millisecond || after >= 10*time.Millisecond {
					t.Fatal("a DROP cell after", after)
				}
			}
			p.close()
		}
		if len(counts) != 3 || !counts[7] || !counts[8] || !counts[9] {
			t.Error("DROP cells:", counts)
		}
		p := r.padded("Padding=1-2")
		if !p.client.Pad(PadRendezvous) {
			t.Fatal("nothing began")
		}
		began := time.Now()
		time.Sleep(time.Second)
		synctest.Wait()
		if commands(p.down) != "PADDING_NEGOTIATED DROP" || p.down[1].at.Sub(began) >= time.Millisecond {
			t.Error("to the client:", commands(p.down))
		}
		if got := commands(p.up); got != "PADDING_NEGOTIATE DROP" && got != "PADDING_NEGOTIATE" {
			t.Error("to the relay:", got)
		}
		p.close()
		r.nothingLeft("padding")
	})
}

// TestPaddingEndsWithCircuit: a circuit that closes leaves no timer.
func TestPaddingEndsWithCircuit(t *testing.T) {
	onRig(t, func(r *rig) {
		for _, m := range []PaddingMachine{PadIntroduction, PadRendezvous} {
			p := r.padded("Padding=2")
			p.client.Pad(m)
			synctest.Wait()
			at, far := p.client.pads, p.relay.pads
			p.close()
			for _, pads := range []*padder{at, far} {
				if pads.timer != nil || !pads.over || pads.left != 0 {
					t.Errorf("machine %d goes on", m)
				}
			}
			if p.client.Pad(m) {
				t.Error("a machine began on a closed circuit")
			}
		}
		r.nothingLeft("closed")
	})
}

// TestPaddingFlood: what a client can make a relay send is bounded.
func TestPaddingFlood(t *testing.T) {
	onRig(t, func(r *rig) {
		p := r.padded("Padding=2")
		p.client.handle = func(_ *Hop, m cell.RelayMsg, _ cell.Command) error {
			m.Data = bytes.Clone(m.Data)
			p.down = append(p.down, heardAt{m, time.Now()})
			return nil
		}
		for i := range uint32(200) {
			p.ask(cell.CircPaddingNegotiate{Command: cell.PaddingStart, Machine: uint8(i % 2), Counter: i + 1})
			if i%3 == 0 { // often the machine is in the middle of its work
				time.Sleep(3 * time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		drops, began, refused := 0, 0, 0
		for _, m := range p.down {
			if m.Cmd == cell.RelayDrop {
				drops++
				continue
			}
			a, err := cell.ParseCircPaddingNegotiated(m.Data)
			switch {
			case err != nil:
				t.Fatal(err)
			case a.Command == cell.PaddingStart && a.OK:
				began++
			case a.Command == cell.PaddingStart:
				refused++
			}
		}
		if began != maxPaddings || refused != 200-maxPaddings || drops == 0 || drops > 9*maxPaddings || p.relay.Err() != nil {
			t.Error(began, refused, drops, p.relay.Err())
		}
		p.close()
	})
}

// TestPaddingRequests: what the relay answers.
func TestPaddingRequests(t *testing.T) {
	start, stop := cell.PaddingStart, cell.PaddingStop
	onRig(t, func(r *rig) {
		for name, c := range map[string]struct {
			asks []cell.CircPaddingNegotiate
			want []cell.CircPaddingNegotiated
			ends bool
		}{
			"unknown machine": {[]cell.CircPaddingNegotiate{{Command: start, Machine: 2, Counter: 1}}, []cell.CircPaddingNegotiated{{Command: start, Machine: 2, Counter: 1}}, false},
			"stop":            {[]cell.CircPaddingNegotiate{{Command: start, Machine: 0, Counter: 1}, {Command: stop, Machine: 0, Counter: 1}}, []cell.CircPaddingNegotiated{{Command: start, OK: true, Counter: 1}, {Command: stop, OK: true, Counter: 1}}, false},
			"stop any":        {[]cell.CircPaddingNegotiate{{Command: start, Machine: 1, Counter: 1}, {Command: stop, Machine: 1}}, []cell.CircPaddingNegotiated{{Command: start, OK: true, Machine: 1, Counter: 1}, {Command: stop, OK: true, Machine: 1}}, false},
			"stop of another": {[]cell.CircPaddingNegotiate{{Command: start, Machine: 1, Counter: 1}, {Command: stop, Machine: 0, Counter: 1}}, []cell.CircPaddingNegotiated{{Command: start, OK: true, Machine: 1, Counter: 1}}, false},
			"stop of none":    {[]cell.CircPaddingNegotiate{{Command: stop, Machine: 0, Counter: 1}}, nil, true},
			"too many": {func() (out []cell.CircPaddingNegotiate) {
				for i := range uint32(maxPaddings + 1) {
					out = append(out, cell.CircPaddingNegotiate{Command: start, Counter: i + 1})
				}
				return out
			}(), func() (out []cell.CircPaddingNegotiated) {
				for i := range uint32(maxPaddings + 1) {
					out = append(out, cell.CircPaddingNegotiated{Command: start, OK: i < maxPaddings, Counter: i + 1})
				}
				return out
			}(), false},
		} {
			p := r.padded("Padding=2")
			var got []cell.CircPaddingNegotiated
			p.client.handle = func(_ *Hop, m cell.RelayMsg, _ cell.Command) error {
				if m.Cmd != cell.RelayPaddingNegotiated {
					return nil
				}
				a, err := cell.ParseCircPaddingNegotiated(m.Data)
				got = append(got, a)
				return err
			}
			for _, a := range c.asks {
				p.ask(a)
			}
			if len(got) != len(c.want) {
				t.Errorf("%s: %v", name, got)
			} else {
				for i := range got {
					if got[i] != c.want[i] {
						t.Errorf("%s: %v, not %v", name, got[i], c.want[i])
					}
				}
			}
			if ended := p.relay.Err() != nil; ended != c.ends {
				t.Errorf("%s: %v", name, p.relay.Err())
			}
			p.close()
		}
	})
}

// TestPaddingNotAsked: a client begins nothing with a relay that does not advertise it,
// or where it is turned off, and takes no answer that it did not ask for.
func TestPaddingNotAsked(t *testing.T) {
	onRig(t, func(r *rig) {
		p := r.padded("Padding=1")
		if p.client.Pad(PadIntroduction) {
			t.Error("the relay does not advertise it")
		}
		p.close()
		for name, params := range map[string]PaddingParams{"disabled": {Disabled: true, MaxQueued: 1000}, "reduced": {Reduced: true, MaxQueued: 1000}} {
			p := r.padded("Padding=2")
			p.client.env.Padding.Set(params)
			if p.client.Pad(PadIntroduction) || p.client.Padded() {
				t.Error(name)
			}
			p.close()
		}
		answer := cell.CircPaddingNegotiated{Command: cell.PaddingStart, OK: true, Counter: 1}
		for name, pads := range map[string]bool{"unasked": false, "too many": true} {
			p := r.padded("Padding=2")
			if pads {
				p.client.Pad(PadIntroduction)
				time.Sleep(time.Second) // two answers came
			}
			if err := p.relay.Last().Send(cell.RelayPaddingNegotiated, 0, answer.Append(nil)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if !fault.Is(p.client.Err(), fault.Protocol) {
				t.Errorf("%s: %v", name, p.client.Err())
			}
			p.close()
		}
		p = r.padded("Padding=2")
		for range maxDrops {
			if err := p.relay.Last().Send(cell.RelayDrop, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := p.client.Err(); err != nil {
			t.Fatal(err)
		}
		if err := p.relay.Last().Send(cell.RelayDrop, 0, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !fault.Is(p.client.Err(), fault.Protocol) {
			t.Error("DROP cells without end:", p.client.Err())
		}
		p.close()
		r.nothingLeft("not asked")
	})
}

// TestPaddingLimits: the consensus's parameters hold for all circuits of a process.
func TestPaddingLimits(t *testing.T) {
	cells := uint64(1000)
	var drops atomic.Uint64
	l := NewPaddingLimits(func() uint64 { return cells }, &drops)
	set := func(change func(*PaddingParams)) {
		p := DefaultPaddingParams()
		change(&p)
		l.Set(p)
	}
	if !l.allow(1000) || l.allow(1001) {
		t.Error("by the queue")
	}
	set(func(p *PaddingParams) { p.GlobalPercent, p.GlobalAllowed = 1, 5 })
	n := 0
	for l.allow(0) {
		n++
	}
	if drops.Load() != 11 || n != 10 { // above one in a hundred it ends
		t.Error(drops.Load(), n)
	}
	if cells = 2000; !l.allow(0) {
		t.Error("it does not go on with other traffic")
	}
	set(func(p *PaddingParams) { p.Disabled = true })
	if l.allow(0) || l.begins() {
		t.Error("disabled")
	}
	if set(func(p *PaddingParams) { p.Reduced = true }); !l.allow(0) || l.begins() {
		t.Error("reduced: a client begins none, and a relay that is asked goes on")
	}
	var none *PaddingLimits
	if none.allow(0) || none.begins() {
		t.Error("without limits")
	}
}

// TestPaddingOneTimer: if a machine takes the place of another while that one sends a
// cell, only the new one goes on: there is one timer.
func TestPaddingOneTimer(t *testing.T) {
	onRig(t, func(r *rig) {
		p := r.padded("Padding=2")
		pads := p.relay.padder(p.relay.Hops()[0])
		end := &paddingEnd{least: 5, most: 5, soon: 10 * time.Millisecond, late: 10*time.Millisecond + 1}
		begin := func(m PaddingMachine) {
			count, ok := pads.begin(m, end)
			if !ok {
				t.Error("a machine does not begin")
			}
			pads.wait(count)
		}
		calls := 0
		var drops atomic.Uint64
		limits := NewPaddingLimits(func() uint64 { // is asked while a cell is sent
			if calls++; calls == 1 {
				begin(PadRendezvous)
			}
			return 1 << 40
		}, &drops)
		params := DefaultPaddingParams()
		params.GlobalPercent = 100
		limits.Set(params)
		p.relay.env.Padding = limits
		begin(PadIntroduction)
		for i := range 6 {
			time.Sleep(10*time.Millisecond + 1)
			synctest.Wait()
			if n := drops.Load(); n != uint64(i+1) {
				t.Fatalf("%d cells after %d times ten milliseconds", n, i+1)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := drops.Load(); n != 6 { // one of the first machine, five of the second
			t.Errorf("%d cells", n)
		}
	})
}
