package hostile

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/memconn"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// dirWorld has a directory client. All its caches are hostile while the program
// runs. Afterwards they are honest, and the client must become ready.
type dirWorld struct {
	t      *testing.T
	net    *simnet.Network
	client *dirclient.Client
	stop   context.CancelFunc
	ended  chan error
	wg     sync.WaitGroup // the caches' work
	held   atomic.Int64   // streams that the client has not closed

	mu      sync.Mutex        // guards what follows
	scripts []Insn            // for the next requests
	open    map[net.Conn]bool // the caches' ends of streams
	asked   int
	next    int
	honest  bool
}

var dirNet = sync.OnceValues(func() (*dirgen.Net, error) {
	return dirgen.New(dirgen.Options{Relays: 40, ValidAfter: epoch.Add(-10 * time.Minute), Seed: 1})
})

func makeDirNet() error {
	_, err := dirNet()
	return err
}

func newDirWorld(t *testing.T) *dirWorld {
	n, err := dirNet()
	if err != nil {
		t.Fatal(err)
	}
	w := &dirWorld{t: t, net: simnet.NewNetwork(), ended: make(chan error, 1), open: map[net.Conn]bool{}}
	w.client = dirclient.New(dirclient.Config{Network: n.Network, Dialer: w})
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() { w.ended <- w.client.Run(ctx) }()
	return w
}

// OpenDir implements dirclient.Dialer.
func (w *dirWorld) OpenDir(ctx context.Context, q dirclient.Query) (dirclient.Stream, error) {
	w.mu.Lock()
	w.asked++
	w.next++
	cache := ident.RelayID{RSA: ident.RSAID{0xca, byte(w.next % 5)}}
	var how *Insn
	if len(w.scripts) > 0 {
		how = &w.scripts[0]
		w.scripts = w.scripts[1:]
	}
	honest := w.honest
	w.mu.Unlock()
	if how == nil {
		how = &Insn{A: answerDirNever}
		if honest {
			how = &Insn{A: answerDirRight}
		}
	}
	if how.A%answerDirKinds == answerDirNobody {
		return dirclient.Stream{}, fault.New(fault.Network, "the cache cannot be reached")
	}
	here, there := memconn.Pipe(netip.AddrPortFrom(honestAddress, 1), address(nodeHostile), nil)
	w.mu.Lock()
	w.open[there] = true
	w.mu.Unlock()
	w.wg.Go(func() {
		defer func() {
			there.Close()
			w.mu.Lock()
			delete(w.open, there)
			w.mu.Unlock()
		}()
		w.serve(there, *how)
	})
	w.held.Add(1)
	return dirclient.Stream{ReadWriteCloser: &heldConn{Conn: here, held: &w.held}, Cache: cache}, nil
}

// heldConn counts streams that the client has not closed.
type heldConn struct {
	net.Conn
	once sync.Once
	held *atomic.Int64
}

func (c *heldConn) Close() error {
	c.once.Do(func() { c.held.Add(-1) })
	return c.Conn.Close()
}

// ReportDir implements dirclient.Dialer.
func (w *dirWorld) ReportDir(ident.RelayID, dirclient.Purpose, error) {}

func (w *dirWorld) settle() {}

func (w *dirWorld) finish() {
	w.mu.Lock()
	w.honest, w.scripts = true, nil
	for c := range w.open {
		_ = c.Close()
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Minute)
	if _, err := w.client.Wait(ctx); err != nil {
		w.t.Errorf("with honest caches the client is not ready: %v; it asked %d times", err, w.asked)
	}
	cancel()
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Error("the directory client: ", err)
	}
	if n := w.held.Load(); n > 0 {
		w.t.Errorf("%d streams to caches are left open", n)
	}
	w.wg.Wait()
}

// dirOps lists what caches answer. In answer, A is the kind, and B and C say how.
var dirOps = table[*dirWorld]{
	opEnd: {"end", func(w *dirWorld, i Insn) { // of all streams that are open
		w.mu.Lock()
		defer w.mu.Unlock()
		for c := range w.open {
			_ = c.Close()
		}
	}},
	opWait: {"wait", func(w *dirWorld, i Insn) { later(pick(waits, i.A)) }},
	{"answer", func(w *dirWorld, i Insn) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.scripts = append(w.scripts, i)
	}},
}
