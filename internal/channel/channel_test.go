package channel

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// sink is a Receiver that remembers.
type sink struct {
	mu       sync.Mutex
	cells    []byte
	control  []cell.Command
	reason   cell.DestroyReason
	err      error
	ended    chan struct{}
	writable chan struct{}
}

func newSink() *sink { return &sink{ended: make(chan struct{}), writable: make(chan struct{}, 1)} }

func (s *sink) HandleCells(cells []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cells = append(s.cells, cells...)
}

func (s *sink) HandleBatchEnd() {}

func (s *sink) HandleControl(cmd cell.Command, _ []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control = append(s.control, cmd)
}

func (s *sink) HandleDestroy(reason cell.DestroyReason, err error) {
	s.reason, s.err = reason, err
	close(s.ended)
}

func (s *sink) HandleWritable() {
	select {
	case s.writable <- struct{}{}:
	default:
	}
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cells) / cell.Len
}

// pair runs f with two channels that face each other, on virtual time; the
// second is the responder's, and accepts circuits into sinks.
func pair(t *testing.T, client, relay Config, f func(a, b *Channel, accepted chan *sink)) {
	pairAs(t, false, client, relay, f)
}

// pairAs is pair, whose first end says who it is when it is a relay.
func pairAs(t *testing.T, isRelay bool, client, relay Config, f func(a, b *Channel, accepted chan *sink)) {
	k := keys(t)
	var who *RelayKeys
	if isRelay {
		who = keys(t)
	}
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		// The keys were made on real time, which virtual time does not follow.
		now := func() time.Time { return k.Expires.Add(-time.Hour) }
		l, r, lerr, rerr := shake(t, x, y, ident.RelayID{RSA: k.ID.RSA}, &LinkConfig{Now: now, Identity: who}, &LinkConfig{Now: now, Identity: k})
		if lerr != nil || rerr != nil {
			t.Fatal(lerr, rerr)
		}
		accepted := make(chan *sink, 100)
		for _, c := range []*Config{&client, &relay} {
			c.Now, c.Log, c.Stats = time.Now, slog.New(slog.DiscardHandler), new(Stats)
		}
		relay.Accept = func(c *CircuitEnd, cmd cell.Command, _ []byte) {
			s := newSink()
			s.control = append(s.control, cmd)
			c.SetReceiver(s)
			accepted <- s
		}
		a, b := Start(l, &client), Start(r, &relay)
		f(a, b, accepted)
		a.Close(fault.New(fault.Closed, "the test is over"))
		<-a.Done()
		<-b.Done()
	})
}

func TestChannelCarriesCells(t *testing.T) {
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		mine := newSink()
		c, err := a.Open(mine, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.ID()>>31 != 1 {
			t.Fatal("an initiator's circuit identifiers have the highest bit set")
		}
		if err := c.SendControl(cell.CmdCreate2, []byte("x")); err != nil {
			t.Fatal(err)
		}
		theirs := <-accepted
		want := numbered(0, 100)
		for i := 0; i < len(want); i += cell.Len {
			cell.PutHeader(want[i:], c.ID(), cell.CmdRelay)
		}
		for at := 0; at < len(want); at += 20 * cell.Len {
			if err := c.Send(want[at : at+20*cell.Len]); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if !bytes.Equal(theirs.cells, want) {
			t.Fatalf("%d cells arrived", theirs.count())
		}
		c.Destroy(cell.DestroyNone)
		<-theirs.ended
		if n, since := b.Circuits(); n != 0 || since.IsZero() {
			t.Fatal(n, since)
		}
		if err := c.Send(want[:cell.Len]); !fault.Is(err, fault.Closed) {
			t.Fatal(err)
		}
	})
}

// TestLongCellOfAClosedCircuit: a circuit that was destroyed before its LONG_CREATE2 was queued
// is not opened at the peer. Its DESTROY went before, so nobody would ever close it.
func TestLongCellOfAClosedCircuit(t *testing.T) {
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		c, err := a.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Destroy(cell.DestroyNone)
		if err := c.SendLong(cell.CmdLongCreate2, make([]byte, 1000)); !fault.Is(err, fault.Closed) {
			t.Error(err)
		}
		synctest.Wait()
		if n, _ := b.Circuits(); n != 0 {
			t.Errorf("the peer has %d circuits that nobody closes", n)
		}
	})
}

// TestDestroyGoesFirst: whatever is queued on other circuits.
func TestEveryCircuitLearnsOfTheEnd(t *testing.T) {
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		var mine []*sink
		for range 5 {
			s := newSink()
			c, err := a.Open(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
				t.Fatal(err)
			}
			<-accepted
			mine = append(mine, s)
		}
		b.Close(fault.New(fault.Network, "gone"))
		for _, s := range mine {
			<-s.ended
			if s.reason != cell.DestroyChannelClosed || !fault.Is(s.err, fault.Network) {
				t.Fatal(s.reason, s.err)
			}
		}
		if _, err := a.Open(newSink(), nil); err == nil {
			t.Fatal("a circuit was opened on a closed channel")
		}
	})
}

// TestRoom: an edge that fills the queue is told when there is room again.
func TestRoom(t *testing.T) {
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		s := newSink()
		c, err := a.Open(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
			t.Fatal(err)
		}
		theirs := <-accepted
		sent := 0
		for range 50 {
			for c.Room() > 0 {
				if err := c.Send(numbered(0, 1)); err != nil {
					t.Fatal(err)
				}
				sent++
			}
			<-s.writable
		}
		synctest.Wait()
		if got := theirs.count(); got != 0 && got != sent { // after the header, the cells have command 0, PADDING
			t.Fatal(got, sent)
		}
	})
}

// TestPadding: an idle link that a circuit of several hops has used pads at both ends within the
// time that padding-spec names, also when that circuit is gone; another pads for keepalive only.
func TestPadding(t *testing.T) {
	full := Config{Padding: NewPadding(DefaultPadding(PadFull))}
	pair(t, full, full, func(a, b *Channel, accepted chan *sink) {
		in := func(c *Channel) uint64 { return c.cfg.Stats.CellsIn.Load() }
		time.Sleep(4 * time.Minute)
		if in(a)+in(b) != 0 {
			t.Fatal("a link without circuits padded")
		}
		time.Sleep(10 * time.Minute)
		if in(a) == 0 || in(b) == 0 {
			t.Fatal("no keepalive")
		}
		before := in(a) + in(b)
		c, err := a.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
			t.Fatal(err)
		}
		<-accepted
		time.Sleep(30 * time.Second)
		if n := in(a) + in(b) - before; n != 1 {
			t.Fatalf("%d cells, not CREATE2 alone, beside a circuit of one hop", n)
		}
		a.NoteMultiHop()
		b.NoteMultiHop()
		c.Destroy(cell.DestroyNone)
		synctest.Wait()
		before = in(a) + in(b)
		time.Sleep(100 * time.Second)
		// Both ends pad after 1.5 to 9.5 idle seconds: some 10 to 60 cells.
		if n := in(a) + in(b) - before; n < 10 || n > 70 {
			t.Fatalf("%d padding cells in 100 seconds", n)
		}
	})
}

// TestBusyLinkPadsNot: a link that is never idle for long enough sends no padding, however
// many timeouts pass.
func TestBusyLinkPadsNot(t *testing.T) {
	const often, low = 100 * time.Millisecond, 1500 * time.Millisecond
	pads := Config{Padding: NewPadding(PaddingConfig{Low: low, High: low})}
	pair(t, pads, Config{}, func(a, b *Channel, accepted chan *sink) {
		c, err := a.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
			t.Fatal(err)
		}
		<-accepted
		a.NoteMultiHop()
		synctest.Wait()
		before, cells := b.cfg.Stats.CellsIn.Load(), uint64(time.Minute/often)
		for range cells {
			sendOne(c)
			time.Sleep(often)
		}
		if n := b.cfg.Stats.CellsIn.Load() - before - cells; n != 0 {
			t.Errorf("%d padding cells beside a cell in each %v", n, often)
		}
		before = b.cfg.Stats.CellsIn.Load()
		time.Sleep(low)
		synctest.Wait()
		if n := b.cfg.Stats.CellsIn.Load() - before; n != 1 {
			t.Errorf("%d padding cells after %v of silence", n, low)
		}
	})
}

// TestPaddingBetweenRelays: two relays pad the link between them only when the
// consensus wants it, and from when it does.
func TestPaddingBetweenRelays(t *testing.T) {
	a, b := NewPadding(DefaultPadding(PadRelay)), NewPadding(DefaultPadding(PadRelay))
	pairAs(t, true, Config{Padding: a}, Config{Padding: b}, func(ca, cb *Channel, accepted chan *sink) {
		c, err := ca.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
			t.Fatal(err)
		}
		<-accepted
		ca.NoteMultiHop() // the other end knows it by itself
		synctest.Wait()
		in := func() uint64 { return ca.cfg.Stats.CellsIn.Load() + cb.cfg.Stats.CellsIn.Load() }
		before := in()
		time.Sleep(4 * time.Minute)
		if n := in() - before; n != 0 {
			t.Fatalf("%d padding cells", n)
		}
		wants := func(name string, def, lo, hi int32) int32 {
			if name == "nf_pad_relays" {
				return 1
			}
			return def
		}
		for _, p := range []*Padding{a, b} {
			p.Set(PaddingFrom(wants, PadRelay))
		}
		time.Sleep(5 * time.Minute) // the time-outs that run are those of keepalive
		before = in()
		time.Sleep(100 * time.Second)
		if n := in() - before; n < 10 || n > 70 {
			t.Fatalf("%d padding cells in 100 seconds", n)
		}
	})
}

// TestPaddingParameters: what the consensus says, by mode.
func TestPaddingParameters(t *testing.T) {
	say := func(values map[string]int32) func(name string, def, lo, hi int32) int32 {
		return func(name string, def, lo, hi int32) int32 {
			if v, ok := values[name]; ok {
				return min(max(v, lo), hi)
			}
			return def
		}
	}
	const ms = time.Millisecond
	for _, c := range []struct {
		mode   PaddingMode
		params map[string]int32
		want   PaddingConfig
	}{
		{PadFull, nil, PaddingConfig{Low: 1500 * ms, High: 9500 * ms, KeepAlive: keepAlive}},
		{PadReduced, nil, PaddingConfig{Low: 9000 * ms, High: 14000 * ms, KeepAlive: keepAlive, Stop: true, ClientIdle: 90 * time.Second}},
		{PadOff, nil, PaddingConfig{KeepAlive: keepAlive, Stop: true}},
		{PadRelay, nil, PaddingConfig{Low: 1500 * ms, High: 9500 * ms, KeepAlive: keepAlive, OnlyClients: true, RelayIdle: time.Hour}},
		{PadRelay, map[string]int32{"nf_pad_relays": 1}, PaddingConfig{Low: 1500 * ms, High: 9500 * ms, KeepAlive: keepAlive, RelayIdle: time.Hour}},
		{PadRelay, map[string]int32{"nf_conntimeout_relays": 7}, PaddingConfig{Low: 1500 * ms, High: 9500 * ms, KeepAlive: keepAlive, OnlyClients: true, RelayIdle: time.Minute}},
		{PadFull, map[string]int32{"nf_ito_low": 0, "nf_ito_high": 0}, PaddingConfig{KeepAlive: keepAlive}},
		{PadFull, map[string]int32{"nf_ito_low": 20000}, PaddingConfig{Low: 20000 * ms, High: 20000 * ms, KeepAlive: keepAlive}},
		{PadFull, map[string]int32{"nf_ito_high": 1 << 30}, PaddingConfig{Low: 1500 * ms, High: 60000 * ms, KeepAlive: keepAlive}},
		{PadReduced, map[string]int32{"nf_ito_low_reduced": 5, "nf_ito_low": 7}, PaddingConfig{Low: 5 * ms, High: 14000 * ms, KeepAlive: keepAlive, Stop: true, ClientIdle: 90 * time.Second}},
	} {
		if got := PaddingFrom(say(c.params), c.mode); got != c.want {
			t.Errorf("mode %d, %v: %+v, want %+v", c.mode, c.params, got, c.want)
		}
	}
}

// TestPaddingStop: a client that asks for none gets none.
func TestPaddingStop(t *testing.T) {
	pair(t, Config{Padding: NewPadding(PaddingConfig{Stop: true})}, Config{Padding: NewPadding(DefaultPadding(PadRelay))}, func(a, b *Channel, accepted chan *sink) {
		c, err := a.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
			t.Fatal(err)
		}
		<-accepted
		b.NoteMultiHop()
		time.Sleep(time.Minute)
		if n := a.cfg.Stats.CellsIn.Load(); n != 0 {
			t.Fatalf("%d padding cells came", n)
		}
	})
}

// TestChannelRefuses: cells that break the link protocol cost the channel,
// with a cause that says why.
func TestChannelRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"huge variable cell": {[]byte{0, 0, 0, 0, 0xc0, 0xff, 0xff}, "65535"},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
				if _, err := a.conn.Write(c.b); err != nil {
					t.Fatal(err)
				}
				<-b.Done()
				if err := b.Err(); !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), c.want) {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestVariableBounds: long messages have the bound of the specification, in either
// direction; other cells of variable length are ignored up to their bound.
func TestVariableBounds(t *testing.T) {
	for name, c := range map[string]struct {
		cmd cell.Command
		n   int
		ok  bool
	}{
		"LONG_CREATED2, longest": {cell.CmdLongCreated2, cell.MaxLong, true},
		"LONG_CREATED2, longer":  {cell.CmdLongCreated2, cell.MaxLong + 1, false},
		"LONG_CREATED2 of 3000":  {cell.CmdLongCreated2, 3000, false},
		"LONG_CREATE2, longest":  {cell.CmdLongCreate2, cell.MaxLong, true},
		"LONG_CREATE2, longer":   {cell.CmdLongCreate2, cell.MaxLong + 1, false},
		"VPADDING":               {cell.CmdVPadding, maxVariable, true},
		"VPADDING, longer":       {cell.CmdVPadding, maxVariable + 1, false},
	} {
		pair(t, Config{}, Config{}, func(a, b *Channel, _ chan *sink) {
			a.sendUrgent(cell.AppendVar(nil, 1<<31|7, c.cmd, make([]byte, c.n)))
			synctest.Wait()
			if err := b.Err(); (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Protocol) {
				t.Errorf("%s: %v", name, err)
			}
			circ, err := a.Open(newSink(), nil)
			if err != nil {
				return // closed
			}
			if err := circ.SendLong(c.cmd, make([]byte, cell.MaxLong+1)); !fault.Is(err, fault.Local) {
				t.Errorf("%s: a body that the peer would refuse: %v", name, err)
			}
		})
	}
}

// TestChannelIgnores: what a later protocol may send costs nothing.
func TestChannelIgnores(t *testing.T) {
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		var junk []byte
		junk = cell.AppendFixed(junk, 77, cell.CmdRelay, nil)   // no such circuit
		junk = cell.AppendFixed(junk, 0, cell.Command(77), nil) // no such command
		junk = cell.AppendFixed(junk, 0, cell.CmdNetinfo, nil)  // after the handshake
		junk = cell.AppendVar(junk, 9, cell.Command(200), []byte("x"))
		junk = cell.AppendVar(junk, 0, cell.CmdVPadding, make([]byte, 3000))
		junk = cell.AppendFixed(junk, 77, cell.CmdDestroy, nil)
		if _, err := a.conn.Write(junk); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
	})
}

// FuzzDispatch gives the reader bytes as a hostile peer may send them.
func FuzzDispatch(f *testing.F) {
	f.Add(cell.AppendFixed(nil, 1<<31|7, cell.CmdCreate2, []byte{0, 2, 0, 84}), true)
	f.Add(cell.AppendVar(nil, 1<<31|7, cell.CmdLongCreate2, []byte{255, 2, 0, 4, 1, 2, 3, 4}), true)
	f.Add(append(cell.AppendFixed(nil, 3, cell.CmdRelay, nil), cell.AppendFixed(nil, 3, cell.CmdDestroy, nil)...), false)
	f.Fuzz(func(t *testing.T, b []byte, initiator bool) {
		cfg := &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler), Accept: func(c *CircuitEnd, _ cell.Command, _ []byte) { c.SetReceiver(newSink()) }}
		ch := &Channel{link: &Link{Initiator: initiator}, cfg: cfg, circs: map[uint32]*CircuitEnd{}, turn: turnLoop}
		ch.pad = &padder{ch: ch, stopped: true}
		for len(b) > 0 {
			used, err := ch.dispatch(b)
			if used < 0 || used > len(b) {
				t.Fatalf("used %d of %d", used, len(b))
			}
			if err != nil || used == 0 {
				return
			}
			b = b[used:]
		}
	})
}
