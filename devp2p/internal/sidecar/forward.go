package sidecar

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

// The times of a forward.
const (
	takeWithin = 10 * time.Second // how long a connection made ahead waits for the node
	maxAtOnce  = 2                // connections through one forward: one lives, one may be ending
	endsItself = time.Second      // for the node to end a connection whose other end said goodbye
	heldFor    = 15 * time.Second // how long the node's connection stays without the onion's
)

// A forward is a port of loopback that leads to one onion.
//
// The node gives a handshake 5 seconds, and the connection to an onion can take longer. So
// the first connection to the onion is made before the node knows the port.
type forward struct {
	dest   *enode.Node // with its onion
	dialer *devp2p.Transport
	onLost func() // is called when lost becomes true
	ln     net.Listener
	ctx    context.Context // of the connections
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	first  net.Conn // guarded by mu: made ahead
	active int      // guarded by mu

	// lost says that the onion's end of the node's connection is gone without a goodbye. The
	// node has its own end still, for heldFor.
	lost atomic.Bool
}

// openForward connects to the onion, and then opens the port. onLost is called when the onion
// is lost.
func openForward(ctx context.Context, t *devp2p.Transport, dest *enode.Node, onLost func()) (*forward, error) {
	first, err := t.Dial(ctx, dest)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		first.Close()
		return nil, err
	}
	f := &forward{dest: dest, dialer: t, onLost: onLost, ln: ln, first: first}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.wg.Go(f.serve)
	f.wg.Go(func() {
		select {
		case <-time.After(takeWithin):
		case <-f.ctx.Done():
		}
		if c := f.takeFirst(); c != nil {
			c.Close()
		}
	})
	return f, nil
}

// url names the destination to the node: its identity at the port of loopback.
func (f *forward) url() string {
	addr := f.ln.Addr().(*net.TCPAddr)
	return enode.NewV4(f.dest.Pubkey(), addr.IP, addr.Port, 0).URLv4()
}

// Close ends the port and its connections.
func (f *forward) Close() {
	f.cancel()
	f.ln.Close()
	f.wg.Wait()
}

func (f *forward) takeFirst() net.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.first
	f.first = nil
	return c
}

func (f *forward) serve() {
	for {
		c, err := f.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of file descriptors, for example: the node tries again later.
			select {
			case <-time.After(time.Second):
				continue
			case <-f.ctx.Done():
				return
			}
		}
		f.mu.Lock()
		full := f.active >= maxAtOnce
		if !full {
			f.active++
		}
		f.mu.Unlock()
		if full {
			c.Close()
			continue
		}
		f.wg.Go(func() {
			f.join(c)
			f.mu.Lock()
			f.active--
			f.mu.Unlock()
		})
	}
}

// join connects the node's connection to the onion.
func (f *forward) join(c net.Conn) {
	onion := f.takeFirst()
	if onion == nil {
		var err error
		if onion, err = f.dialer.Dial(f.ctx, f.dest); err != nil {
			c.Close()
			return
		}
	}
	stop := context.AfterFunc(f.ctx, func() {
		c.Close()
		onion.Close()
	})
	defer stop()
	f.splice(c, onion)
}

// splice copies between the node's connection and the onion's until both have ended, and
// closes both.
//
// A node that loses a connection dials the port again at once, and if that fails, not again
// for 35 seconds. So when the onion goes without a goodbye, because a program or a circuit
// ended, the node keeps its end until it was told to forget the port. When the onion is there
// again, the node gets a new port, and dials that at once.
func (f *forward) splice(c, onion net.Conn) {
	ended := make(chan struct{}) // the node's end
	go func() {
		defer close(ended)
		_, _ = io.Copy(movingWriter{onion}, c) // who reads the onion learns of it by the close
		onion.Close()
		_, _ = io.Copy(io.Discard, c)
	}()
	_, _ = io.Copy(movingWriter{c}, onion) // what follows asks which end is left
	onion.Close()
	select {
	case <-ended:
	case <-f.ctx.Done():
	case <-time.After(endsItself):
		f.lost.Store(true)
		f.onLost()
		select {
		case <-ended:
		case <-f.ctx.Done():
		case <-time.After(heldFor):
		}
	}
	c.Close()
	<-ended
}
