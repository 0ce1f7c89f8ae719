package relay

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cryptorand "crypto/rand"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/simnet"
)

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
	// The relay begins with two processors, so that one makes circuits. More of them can keep up
	// with one link, above all with one that the race detector slows down.
	processors := runtime.GOMAXPROCS(2)
	v := startVictim(t, nil, func(r *Relay) { r.dos.ids = map[ident.RSAID]bool{keys.ID.RSA: true} })
	runtime.GOMAXPROCS(processors)
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
	v.warnOfRefused(&told)
	if log := v.log.String(); !strings.Contains(log, "overload or attack") || !strings.Contains(log, "onionskins=") {
		t.Errorf("the log does not say so:\n%s", log)
	}
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
