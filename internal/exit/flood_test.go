package exit

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// circuits makes an exit behind a simulated relay, and n circuits to it.
func circuits(t *testing.T, n int, cfg *Config, dir *dirserver.Server) (*Exit, []*circuit.Circuit) {
	t.Helper()
	e, err := New(cfg, dir, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	r := simnet.New(t, simnet.Options{Streams: e})
	t.Cleanup(e.Close)
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(m.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	ch, err := m.Get(ctx, r.Target)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*circuit.Circuit, n)
	for i := range out {
		if out[i], err = circuit.Create(ctx, &circuit.Env{Now: time.Now}, ch, r.Target, circuit.HopOptions{Congestion: true}); err != nil {
			t.Fatal(err)
		}
	}
	return e, out
}

// talk sends bytes and receives them back.
func talk(t *testing.T, s *stream.Stream) {
	t.Helper()
	s.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := s.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if _, err := io.ReadFull(s, b); err != nil || string(b) != "still here" {
		t.Fatal(string(b), err)
	}
}

// ends receives the ENDs and answers of streams that are not read.
type ends struct{ got chan cell.RelayMsg }

func (e ends) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	e.got <- cell.RelayMsg{Cmd: m.Cmd}
	return nil
}
func (ends) Flush()                   {}
func (ends) HandleCircuitClose(error) {}

// TestStreamFlood: a client that opens streams, lookups and directory streams
// without end gets as many as a circuit may have, of all kinds together. Each
// further one is refused with an END, and other circuits are not affected.
func TestStreamFlood(t *testing.T) {
	port := echoServer(t)
	cfg := accept(t, "accept *:*")
	cfg.MaxPerCircuit = 10
	e, c := circuits(t, 2, cfg, dirserver.New(dirserver.Config{Docs: servedWith(t, "DoSBeginDirRateEnabled=0")})) // it waits for requests
	flood, victim := c[0].Last(), c[1]
	before, err := dial(t, victim, "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	// Names without an answer keep their streams open.
	got := ends{make(chan cell.RelayMsg, 4096)}
	send := func(cmd cell.RelayCommand, body []byte) {
		t.Helper()
		var id uint16
		if err := flood.OpenStream(func(n uint16) circuit.StreamReceiver { id = n; return got }); err != nil {
			t.Fatal(err)
		}
		if err := flood.Send(cmd, id, body); err != nil {
			t.Fatal(err)
		}
	}
	begin, err := cell.NewBegin("slow.test", 80, 0)
	if err != nil {
		t.Fatal(err)
	}
	resolve, err := cell.NewResolve("slow.test")
	if err != nil {
		t.Fatal(err)
	}
	const each = 200
	for range each {
		send(cell.RelayBegin, begin.Append(nil))
		send(cell.RelayResolve, resolve.Append(nil))
		send(cell.RelayBeginDir, nil)
	}
	timeout := time.After(60 * time.Second)
	for refused := 0; refused < 3*each-10; {
		select {
		case m := <-got.got:
			if m.Cmd == cell.RelayEnd || m.Cmd == cell.RelayResolved {
				refused++
			}
		case <-timeout:
			t.Fatalf("%d of %d were refused", refused, 3*each)
		}
		if n := e.conns.Load(); n > 11 { // the victim has one
			t.Fatalf("%d are open", n)
		}
	}
	talk(t, before)
	after, err := dial(t, victim, "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	talk(t, after)
	if err := c[0].Err(); err != nil {
		t.Error("the flood's circuit was closed, without a limit in the consensus:", err)
	}
}

// TestExitDrains: new streams are refused, and open ones continue.
func TestExitDrains(t *testing.T) {
	port := echoServer(t)
	e, c := circuits(t, 2, accept(t, "accept *:*"), nil)
	s, err := dial(t, c[0], "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	e.Drain()
	_, err = dial(t, c[0], "127.0.0.1", port)
	wantEnd(t, err, cell.EndHibernating)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if a, err := stream.Resolve(ctx, c[0].Last(), "echo.test"); err == nil {
		t.Error("a lookup was answered:", a)
	}
	talk(t, s)
}

// TestShare: a few circuits that want everything leave something for a late one,
// and the more circuits there are, the less each has.
func TestShare(t *testing.T) {
	e := &Exit{circs: map[*circuit.Hop]*circuitUse{}}
	e.rules.Store(&rules{Config: &Config{MaxConns: 16384, MaxPerCircuit: 1024}})
	held := func(circuits int) (total int) {
		for i := range circuits {
			h := new(circuit.Hop)
			e.circs[h] = &circuitUse{}
			n := 0
			for e.hold(h) {
				n++
			}
			if n < 16 {
				t.Errorf("circuit %d gets %d", i, n)
			}
			total += n
		}
		return total
	}
	if n := held(20); n > 16000 {
		t.Errorf("20 circuits hold %d of 16384", n)
	}
	e.conns.Store(16384)
	h := new(circuit.Hop)
	e.circs[h] = &circuitUse{}
	if e.hold(h) {
		t.Error("more than there is")
	}
}

// TestSockets: an exit has no more connections than its process has
// descriptors for, whatever its configuration says, now or after a reload.
func TestSockets(t *testing.T) {
	cfg := accept(t, "accept *:*")
	e, err := New(cfg, nil, Options{Now: time.Now, Sockets: 40})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for most, want := range map[int]int{0: 40, 100: 40, 30: 30} {
		cfg.MaxConns = most
		if err := e.SetConfig(cfg); err != nil {
			t.Fatal(err)
		}
		if got := e.bounds().MaxConns; got != want {
			t.Errorf("MaxConns %d: %d connections, not %d", most, got, want)
		}
	}
}
