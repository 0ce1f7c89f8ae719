package relay

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	cryptorand "crypto/rand"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// logged collects what a relay logs.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// victim is a complete relay, an exit, of a network whose authorities do not run.
type victim struct {
	*Relay
	log    logged
	target *target.Target
	as     *linkspec.Target // the target of a victim in another process; else nil
}

// Target returns what a client needs to reach the victim.
func (v *victim) Target() linkspec.Target {
	if v.as != nil {
		return *v.as
	}
	return v.Relay.Target()
}

// startVictim starts a victim; change alters its configuration, and tune the
// relay before it runs.
func startVictim(t *testing.T, change func(*Config), tune ...func(*Relay)) *victim {
	t.Helper()
	v := &victim{}
	var err error
	if v.target, err = target.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.target.Close() })
	cfg := bridgeConfig(t)
	cfg.Bridge, cfg.NoPublish, cfg.Nickname = false, true, "victim"
	cfg.Exit = &exit.Config{Policy: exit.AcceptAll(), Private: true, Nameservers: []netip.AddrPort{v.target.Nameserver()}}
	cfg.Log = slog.New(slog.NewTextHandler(&v.log, nil))
	if change != nil {
		change(&cfg)
	}
	if v.Relay, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	v.origin = func(*channel.Link) cell.EndReason { return 0 } // users may use circuits of one hop
	for _, f := range tune {
		f(v.Relay)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := v.gate.open.Load(); n != 0 {
			t.Errorf("%d connections are still counted", n)
		}
	})
	return v
}

// user is a client of the victim, with its own link.
type user struct {
	t  *testing.T
	v  *victim
	ch *channel.Channel
}

var userEnv = &circuit.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}

// connect makes a client whose connection goes through wrap unless that is nil.
func (v *victim) connect(t *testing.T, wrap func(net.Conn) net.Conn) *user {
	t.Helper()
	m := channel.NewManager(&channel.Config{Log: userEnv.Log, Now: time.Now}, &channel.LinkConfig{}, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", a.String())
		if err == nil && wrap != nil {
			c = wrap(c)
		}
		return c, err
	})
	t.Cleanup(m.Close)
	ch, err := m.Get(within(t), v.Target())
	if err != nil {
		t.Fatal(err)
	}
	return &user{t, v, ch}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (u *user) circuit() *circuit.Circuit {
	u.t.Helper()
	c, err := circuit.Create(within(u.t), userEnv, u.ch, u.v.Target(), circuit.HopOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	return c
}

func (u *user) stream(c *circuit.Circuit, s target.Service) *stream.Stream {
	u.t.Helper()
	a := netip.MustParseAddrPort(u.v.target.Addr(s))
	out, err := stream.Dial(within(u.t), c.Last(), a.Addr().String(), a.Port())
	if err != nil {
		u.t.Fatal(err)
	}
	return out
}

// use acts like a client: it opens a circuit and a stream, and sends and receives
// bytes.
func (u *user) use() {
	u.t.Helper()
	c := u.circuit()
	defer c.Close(cell.DestroyNone, context.Canceled)
	s := u.stream(c, target.Echo)
	s.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := s.Write([]byte("is anybody there")); err != nil {
		u.t.Fatal(err)
	}
	b := make([]byte, 16)
	if _, err := io.ReadFull(s, b); err != nil || string(b) != "is anybody there" {
		u.t.Fatalf("%q %v", b, err)
	}
}

// tally counts the results of circuits that are not used.
type tally struct{ created, destroyed atomic.Int64 }

func (*tally) HandleCells([]byte)                        {}
func (y *tally) HandleControl(cell.Command, []byte)      { y.created.Add(1) }
func (y *tally) HandleDestroy(cell.DestroyReason, error) { y.destroyed.Add(1) }
func (*tally) HandleBatchEnd()                           {}

func (*tally) HandleWritable() {}

// TestOnionskinFlood: one link requests far more circuits than the relay can
// make, and the relay refuses the excess; all circuits of another link are made
// in time.
func TestOnionskinFlood(t *testing.T) {
	keys := identity(t) // a listed relay, because strangers may not have enough circuits
	v := startVictim(t, nil, func(r *Relay) { r.dos.ids = map[ident.RSAID]bool{keys.ID.RSA: true} })
	mean, good := v.connectAs(t, keys), v.connect(t, nil)
	tg := v.Target()
	_, skin, err := handshake.Ntor.Start(cryptorand.Reader, &tg, nil)
	if err != nil {
		t.Fatal(err)
	}
	create := (&cell.Create2{Type: cell.HandshakeNtor, Data: skin}).Append(nil)
	var y tally
	asked := int64(0)
	flood := func() {
		t.Helper()
		c, err := mean.ch.Open(&y, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendControl(cell.CmdCreate2, create); err != nil {
			t.Fatal(err)
		}
		asked++
	}
	// Continue until the relay refuses some, however fast this machine is.
	for timeout := within(t); v.stats.Circuit.OnionskinsDropped.Load() == 0; {
		for range 256 {
			flood()
		}
		for mean.ch.Queued() > 1000 && timeout.Err() == nil {
			time.Sleep(time.Millisecond) // for the writer
		}
		if timeout.Err() != nil {
			t.Fatalf("%d onionskins were not too many", asked)
		}
	}
	for range 20 {
		for range 256 {
			flood()
		}
		began := time.Now()
		good.use()
		t.Logf("a circuit, a stream and a round trip beside the flood: %v", time.Since(began))
	}
	for timeout := within(t); y.created.Load()+y.destroyed.Load() < asked; {
		select {
		case <-timeout.Done():
			t.Fatalf("of %d onionskins %d were answered, %d refused", asked, y.created.Load(), y.destroyed.Load())
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Logf("of %d onionskins %d were answered, %d refused", asked, y.created.Load(), y.destroyed.Load())
	if y.destroyed.Load() == 0 || y.created.Load() == 0 {
		t.Error("all or nothing")
	}
	var told refused
	v.tell(&told)
	if log := v.log.String(); !strings.Contains(log, "overload or attack") || !strings.Contains(log, "onionskins=") {
		t.Errorf("the log does not say so:\n%s", log)
	}
}

// TestHalfOpen: with as many silent connections as possible, other clients are
// still served.
func TestHalfOpen(t *testing.T) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	v := startVictim(t, nil)
	// This process has both ends of each connection; the relay closes its own.
	n := min(10_000, int(l.Cur)-v.gate.handshakes-1000)
	if testing.Short() {
		n = min(n, v.gate.handshakes+100)
	}
	if n < 500 {
		t.Fatalf("only %d file descriptors", l.Cur)
	}
	good := v.connect(t, nil)
	var silent []net.Conn
	t.Cleanup(func() {
		for _, c := range silent {
			c.Close()
		}
	})
	for i := range n {
		c, err := net.Dial("tcp", v.Addrs()[0].String())
		if err != nil {
			t.Fatal(i, err)
		}
		silent = append(silent, c)
	}
	v.connect(t, nil).use()
	good.use()
	waiting := func() int {
		v.gate.mu.Lock()
		defer v.gate.mu.Unlock()
		return v.gate.waiting.Len()
	}
	if w := waiting(); w > v.gate.handshakes || w < min(n, v.gate.handshakes)/2 {
		t.Errorf("%d of %d wait, of %d that may", w, n, v.gate.handshakes)
	}
	// The relay may not yet have handled every accepted connection.
	for timeout := within(t); n > v.gate.handshakes+10 && v.gate.cutOff.Load() == 0; {
		select {
		case <-timeout.Done():
			t.Fatal("none was cut off")
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Logf("%d silent connections: %d are waited for, %d were cut off", n, waiting(), v.gate.cutOff.Load())
}

// stopped is a connection whose owner stops reading.
type stopped struct {
	net.Conn
	stop atomic.Bool
	end  chan struct{}
}

func (s *stopped) Read(p []byte) (int, error) {
	if s.stop.Load() {
		<-s.end
		return 0, io.EOF
	}
	return s.Conn.Read(p)
}

func (s *stopped) Close() error {
	select {
	case <-s.end:
	default:
		close(s.end)
	}
	return s.Conn.Close()
}

// TestSlowReader: a client requests much data over many circuits through the
// relay and stops reading. Its queued cells use too much memory: the relay closes
// its circuits and logs this, and another client continues.
func TestSlowReader(t *testing.T) {
	const limit = 2 << 20
	v := startVictim(t, func(c *Config) { c.MaxMemory = limit })
	// An exit behind the relay sends as much as the windows allow.
	far := simnet.New(t, simnet.Options{Serve: func(s *stream.Stream) { _, _ = s.Write(make([]byte, 10<<20)) }})
	var conn *stopped
	mean := v.connect(t, func(c net.Conn) net.Conn {
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		conn = &stopped{Conn: c, end: make(chan struct{})}
		return conn
	})
	good := v.connect(t, nil)
	mine := good.stream(good.circuit(), target.Source)
	var asked []*circuit.Circuit
	for range 16 {
		c := mean.circuit()
		if err := c.Extend(within(t), far.Target, circuit.HopOptions{}); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, c)
	}
	conn.stop.Store(true)
	for _, c := range asked {
		for range 2 { // a stream's window is half a circuit's
			if _, err := stream.Begin(c.Last(), "much", 80, stream.AnyFamily); err != nil {
				t.Fatal(err)
			}
		}
	}
	const size = 20 << 20
	if _, err := mine.Write(binary.BigEndian.AppendUint64(nil, size)); err != nil {
		t.Fatal(err)
	}
	mine.SetDeadline(time.Now().Add(2 * time.Minute))
	for timeout := within(t); evicted(v) == 0; {
		select {
		case <-timeout.Done():
			t.Fatal("no circuit was closed")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(mine, size)); n != size {
		t.Fatalf("the other client got %d of %d bytes: %v", n, size, err)
	}
	good.use()
	if log := v.log.String(); !strings.Contains(log, "level=WARN msg=\"peers made the relay hold too much memory") {
		t.Errorf("the log does not say so:\n%s", log)
	}
	if n := evicted(v); n > 17 {
		t.Errorf("%d circuits and links were closed, more than the client had", n)
	}
}

func evicted(v *victim) uint64 {
	holders, _ := v.memory.Evicted()
	return holders
}

// TestExtendFlood: circuits extended to a peer that accepts connections and stays
// silent use only a part of the relay's connections; other circuits are still
// extended to relays.
func TestExtendFlood(t *testing.T) {
	const room = 20
	v := startVictim(t, nil, func(r *Relay) { r.gate.handshakes = room })
	far := simnet.New(t, simnet.Options{})
	v.dos.mu.Lock()
	v.dos.ports = map[netip.AddrPort]bool{far.Target.Addrs[0]: true} // as if the consensus listed it
	v.dos.mu.Unlock()
	pit, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: no second loopback address: %v", err)
	}
	var caught atomic.Int64
	var open sync.WaitGroup
	ended := make(chan struct{})
	open.Go(func() {
		for {
			c, err := pit.Accept()
			if err != nil {
				return
			}
			caught.Add(1)
			open.Go(func() { <-ended; c.Close() })
		}
	})
	t.Cleanup(func() { close(ended); pit.Close(); open.Wait() })
	mean, good := v.connect(t, nil), v.connect(t, nil)
	refused := make(chan error, 3*room)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for i := range 3 * room {
		tg := far.Target // another address, and another identity each time except the first
		tg.Addrs = []netip.AddrPort{netip.MustParseAddrPort(pit.Addr().String())}
		tg.RSA[0] ^= byte(i)
		tg.Ed[0] ^= byte(i)
		c := mean.circuit()
		go func() { refused <- c.Extend(ctx, tg, circuit.HopOptions{}) }()
	}
	for range 2 * room {
		if err := <-refused; err == nil || ctx.Err() != nil {
			t.Fatalf("it was not refused: %v", err)
		}
	}
	c := good.circuit()
	if err := c.Extend(within(t), far.Target, circuit.HopOptions{}); err != nil {
		t.Error("to a relay:", err)
	}
	good.use()
	if n, k := v.gate.strangers.Load(), caught.Load(); n != room || k > room {
		t.Errorf("%d connections to strangers are counted, %d were made", n, k)
	}
	cancel()
	for range room {
		<-refused
	}
}

// TestMalformedCells: a client that sends any bytes over its link, whole cells or
// parts, and leaves in any way, can lose its own circuits or its link; others
// lose nothing.
func TestMalformedCells(t *testing.T) {
	v := startVictim(t, nil)
	good := v.connect(t, nil)
	held := good.stream(good.circuit(), target.Echo)
	junk := make([]byte, cell.Len)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(junk) // Read of this generator never fails
	fixed := func(id uint32, cmd cell.Command, body ...byte) []byte { return cell.AppendFixed(nil, id, cmd, body) }
	create := func(typ cell.HandshakeType, n int) []byte {
		return (&cell.Create2{Type: typ, Data: junk[:n]}).Append(nil)
	}
	const mine, theirs = 1<<31 | 5, 5
	for name, c := range map[string]struct {
		send  []byte
		close bool // the link must end
	}{
		"VERSIONS again":              {cell.AppendVar(nil, 0, cell.CmdVersions, []byte{0, 4}), false},
		"NETINFO again":               {fixed(0, cell.CmdNetinfo), true},
		"CERTS late":                  {cell.AppendVar(nil, 0, cell.CmdCerts, junk[:100]), false},
		"AUTHENTICATE late":           {cell.AppendVar(nil, 0, cell.CmdAuthenticate, junk[:300]), false},
		"a huge variable cell":        {cell.AppendVar(nil, 0, cell.CmdVPadding, make([]byte, 60000)), true},
		"half a cell":                 {fixed(mine, cell.CmdCreate2)[:300], false},
		"unknown fixed command":       {fixed(mine, 99), false},
		"unknown variable command":    {cell.AppendVar(nil, mine, 250, junk), false},
		"RELAY for no circuit":        {fixed(mine, cell.CmdRelay, junk[:500]...), false},
		"RELAY_EARLY for no circuit":  {fixed(mine, cell.CmdRelayEarly, junk[:500]...), false},
		"DESTROY for no circuit":      {fixed(mine, cell.CmdDestroy), false},
		"CREATED2 for no circuit":     {fixed(mine, cell.CmdCreated2), false},
		"CREATED_FAST for no circuit": {fixed(mine, cell.CmdCreatedFast), false},
		"CREATE2 with our identifier": {fixed(theirs, cell.CmdCreate2, create(2, 84)...), true},
		"CREATE2 on circuit 0":        {fixed(0, cell.CmdCreate2, create(2, 84)...), true},
		"CREATE":                      {fixed(mine, cell.CmdCreate, junk[:186]...), false},
		"CREATE2, garbage ntor":       {fixed(mine, cell.CmdCreate2, create(2, 84)...), false},
		"CREATE2, short ntor":         {fixed(mine, cell.CmdCreate2, create(2, 3)...), false},
		"CREATE2, garbage ntor-v3":    {fixed(mine, cell.CmdCreate2, create(3, 200)...), false},
		"CREATE2, unknown handshake":  {fixed(mine, cell.CmdCreate2, create(77, 84)...), false},
		"CREATE2, lies of its length": {fixed(mine, cell.CmdCreate2, 0, 2, 0xff, 0xff), false},
		"LONG_CREATE2, garbage":       {cell.AppendVar(nil, mine, cell.CmdLongCreate2, junk), false},
		"CREATE_FAST twice":           {append(fixed(mine, cell.CmdCreateFast, junk[:20]...), fixed(mine, cell.CmdCreateFast, junk[:20]...)...), true},
		"RELAY before CREATED2":       {append(fixed(mine, cell.CmdCreate2, create(2, 84)...), fixed(mine, cell.CmdRelay, junk[:500]...)...), false},
		"unrecognised RELAY":          {append(fixed(mine, cell.CmdCreateFast, junk[:20]...), fixed(mine, cell.CmdRelay, junk[:500]...)...), false},
		"CREATED2 on an open circuit": {append(fixed(mine, cell.CmdCreateFast, junk[:20]...), fixed(mine, cell.CmdCreated2, junk[:80]...)...), false},
		"PADDING_NEGOTIATE, garbage":  {fixed(0, cell.CmdPaddingNegotiate, junk[:20]...), false},
		"no TLS any more":             {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := net.Dial("tcp", v.Addrs()[0].String())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			tg := v.Target()
			l, err := channel.Connect(within(t), raw, tg.RelayID, tg.Addrs[0], &channel.LinkConfig{})
			if err != nil {
				t.Fatal(err)
			}
			raw.SetDeadline(time.Now().Add(60 * time.Second))
			if c.send == nil {
				_, err = raw.Write(junk)
			} else {
				_, err = l.Conn.Write(c.send)
			}
			if err != nil && !c.close { // the relay may close the link during the write
				t.Fatal(err)
			}
			if c.close {
				if _, err := io.Copy(io.Discard, l.Conn); err != nil && strings.Contains(err.Error(), "timeout") {
					t.Error("the link stays")
				}
				return
			}
			// The link still works, unless it waits for the other half of a cell:
			// a circuit can be created.
			if name == "half a cell" {
				return
			}
			if _, err := l.Conn.Write(fixed(1<<31|7, cell.CmdCreateFast, junk[:20]...)); err != nil {
				t.Fatal(err)
			}
			for b := make([]byte, cell.Len); ; {
				if _, err := io.ReadFull(l.Conn, b[:cell.HeaderLen]); err != nil {
					t.Fatal("the link ended:", err)
				}
				n := cell.Len - cell.HeaderLen
				if cell.Cmd(b).IsVariable() {
					t.Fatal("a cell of variable length:", cell.Cmd(b))
				}
				if _, err := io.ReadFull(l.Conn, b[cell.HeaderLen:][:n]); err != nil {
					t.Fatal(err)
				}
				if cell.CircID(b) == 1<<31|7 {
					if cell.Cmd(b) != cell.CmdCreatedFast {
						t.Error(cell.Cmd(b))
					}
					break
				}
			}
		})
	}
	// Random cells in random order, until the relay closes each link.
	commands := []cell.Command{cell.CmdPadding, cell.CmdCreate, cell.CmdRelay, cell.CmdDestroy, cell.CmdCreateFast, cell.CmdRelayEarly, cell.CmdCreate2, cell.CmdCreated2, cell.CmdPaddingNegotiate, 40}
	for range 50 {
		raw, err := net.Dial("tcp", v.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		tg := v.Target()
		l, err := channel.Connect(within(t), raw, tg.RelayID, tg.Addrs[0], &channel.LinkConfig{})
		if err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, l.Conn)
		for range 40 {
			_, _ = rng.Read(junk)
			id := 1<<31 | uint32(junk[0]%4)
			if _, err := l.Conn.Write(fixed(id, commands[int(junk[1])%len(commands)], junk[2:400]...)); err != nil {
				break // the relay has heard enough
			}
		}
		raw.Close()
	}
	held.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := held.Write([]byte("x")); err != nil {
		t.Error("another client's stream:", err)
	}
	if _, err := io.ReadFull(held, make([]byte, 1)); err != nil {
		t.Error("another client's stream:", err)
	}
	good.use()
}
