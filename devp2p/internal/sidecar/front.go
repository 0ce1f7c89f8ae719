package sidecar

import (
	"context"
	"crypto/ecdsa"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/crypto/ecies"

	"github.com/chivenet/chive/devp2p"
)

// The limits of an onion's connections to the node.
const (
	maxUnsorted  = 128              // connections whose first message is not there yet
	sortWithin   = 10 * time.Second // for the first message, which a client sends at once
	maxAuth      = 2048             // bytes of RLPx's first message, as in go-ethereum
	localTimeout = 5 * time.Second  // to connect to the node on loopback
)

// front is an Onions whose services have two nodes at one port: the sidecar, for onr/1,
// and the node behind it. The first message of RLPx is encrypted to the identity that the
// client wants, so the sidecar takes the connections whose first message its own key
// opens. All others go to the node, byte by byte.
type front struct {
	devp2p.Onions
	key        *ecdsa.PrivateKey // the sidecar's
	node       func() string     // where the node listens: "127.0.0.1:PORT"; empty: it is away
	maxConns   int               // to the node
	perCircuit int               // of these, over one circuit
	onEnd      func()            // is called when a connection to the node ended
	log        *slog.Logger

	mu       sync.Mutex
	conns    map[net.Conn]bool // guarded by mu: those to the node
	circuits map[string]int    // guarded by mu: connections to the node, by circuit
	unsorted []net.Conn        // guarded by mu: those whose first message is not there yet
	closed   bool              // guarded by mu: no more connections go to the node
}

// ListenOnion implements devp2p.Onions: Accept returns the sidecar's own connections.
func (f *front) ListenOnion(ctx context.Context, keyDir string, port int) (devp2p.OnionListener, error) {
	inner, err := f.Onions.ListenOnion(ctx, keyDir, port)
	if err != nil {
		return nil, err
	}
	l := &frontListener{OnionListener: inner, front: f, own: make(chan net.Conn), done: make(chan struct{})}
	l.wg.Go(l.accept)
	return l, nil
}

// frontListener is an onion service of front.
type frontListener struct {
	devp2p.OnionListener
	front *front
	own   chan net.Conn // connections for the sidecar
	done  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
	err   error // of Accept; set before done is closed
}

// Accept implements net.Listener.
func (l *frontListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.own:
		return c, nil
	case <-l.done:
		return nil, l.err
	}
}

// Close implements net.Listener. It ends the node's connections over the onion, too.
func (l *frontListener) Close() error {
	err := l.OnionListener.Close()
	l.end(net.ErrClosed)
	l.front.closeConns()
	l.wg.Wait()
	return err
}

func (l *frontListener) end(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.done)
	})
}

func (l *frontListener) accept() {
	for {
		c, err := l.OnionListener.Accept()
		if err != nil {
			if op := (*net.OpError)(nil); errors.As(err, &op) {
				err = op.Err // without the address
			}
			l.end(err)
			return
		}
		if !l.front.admit(c) {
			c.Close()
			continue
		}
		l.wg.Go(func() { l.sort(c) })
	}
}

// sort finds out who a connection is for, and serves it.
func (l *frontListener) sort(c net.Conn) {
	stop := make(chan struct{})
	go func() { // the onion's end also ends a connection that sends nothing
		select {
		case <-l.done:
			c.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // then it has ended
		case <-stop:
		}
	}()
	auth, own, err := readAuth(c, l.front.key)
	close(stop)
	l.front.sorted(c)
	if err != nil {
		c.Close()
		l.front.log.Debug("sidecar: connection without a first message", "err", err)
		return
	}
	if !own {
		if err := l.front.serve(c, auth); err != nil {
			l.front.log.Debug("sidecar: connection to the node", "err", err)
		}
		return
	}
	select {
	case l.own <- replay(c, auth):
	case <-l.done:
		c.Close()
	}
}

// readAuth reads RLPx's first message. own says whether key opens it.
func readAuth(c net.Conn, key *ecdsa.PrivateKey) (auth []byte, own bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(sortWithin)); err != nil {
		return nil, false, err
	}
	prefix := make([]byte, 2)
	if _, err := io.ReadFull(c, prefix); err != nil {
		return nil, false, err
	}
	size := int(binary.BigEndian.Uint16(prefix))
	if size > maxAuth {
		return nil, false, fmt.Errorf("sidecar: a first message of %d bytes", size)
	}
	auth = make([]byte, 2+size)
	copy(auth, prefix)
	if _, err := io.ReadFull(c, auth[2:]); err != nil {
		return nil, false, err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return nil, false, err
	}
	_, notOurs := ecies.ImportECDSA(key).Decrypt(auth[2:], nil, prefix)
	return auth, notOurs == nil, nil
}

// circuitOf names the circuit of a connection; empty: it is not known.
func circuitOf(c net.Conn) string {
	if cc, ok := c.(devp2p.CircuitConn); ok {
		return cc.Circuit()
	}
	return ""
}

// admit reports whether a connection may wait for its first message. If there is no place,
// another one that waits is closed: any of those of the circuit that has the most. A Tor
// daemon tells no circuits. Then somebody who fills all places cannot know which connection
// goes, and an honest client, whose message comes at once, gets through after few tries.
func (f *front) admit(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := map[string]int{}
	most := 0
	for _, other := range f.unsorted {
		name := circuitOf(other)
		count[name]++
		most = max(most, count[name])
	}
	if name := circuitOf(c); name != "" && count[name] >= f.perCircuit {
		return false
	}
	if len(f.unsorted) >= maxUnsorted {
		var crowd []int
		for i, other := range f.unsorted {
			if count[circuitOf(other)] == most {
				crowd = append(crowd, i)
			}
		}
		i := crowd[rand.IntN(len(crowd))]
		f.unsorted[i].Close() // its sort ends
		f.unsorted = slices.Delete(f.unsorted, i, i+1)
	}
	f.unsorted = append(f.unsorted, c)
	return true
}

// sorted ends the wait of a connection.
func (f *front) sorted(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.unsorted, c); i >= 0 {
		f.unsorted = slices.Delete(f.unsorted, i, i+1)
	}
}

// serve joins a connection, whose first bytes were read already, to the node.
func (f *front) serve(c net.Conn, ahead []byte) error {
	circuit := circuitOf(c)
	if err := f.enter(c, circuit); err != nil {
		c.Close()
		return err
	}
	defer f.leave(c, circuit)
	addr := f.node()
	if addr == "" {
		c.Close()
		return errors.New("the node is away")
	}
	node, err := net.DialTimeout("tcp", addr, localTimeout)
	if err != nil {
		c.Close()
		return err
	}
	if _, err := node.Write(ahead); err != nil {
		c.Close()
		node.Close()
		return err
	}
	splice(c, node)
	f.onEnd()
	return nil
}

// enter counts a connection, if there is room.
func (f *front) enter(c net.Conn, circuit string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return net.ErrClosed
	case len(f.conns) >= f.maxConns:
		return fmt.Errorf("the onion has %d connections already", len(f.conns))
	case circuit != "" && f.circuits[circuit] >= f.perCircuit:
		return fmt.Errorf("the circuit has %d connections already", f.perCircuit)
	}
	if f.conns == nil {
		f.conns, f.circuits = map[net.Conn]bool{}, map[string]int{}
	}
	f.conns[c] = true
	f.circuits[circuit]++
	return nil
}

func (f *front) leave(c net.Conn, circuit string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
	if f.circuits[circuit]--; f.circuits[circuit] == 0 {
		delete(f.circuits, circuit)
	}
}

// open is how many connections the node has over the onion.
func (f *front) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// closeConns ends the node's connections over the onion, and lets no more in.
func (f *front) closeConns() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.conns {
		c.Close()
	}
}

// replayConn gives bytes that were read ahead once more.
type replayConn struct {
	net.Conn
	ahead []byte // owned by the reader
}

func (c *replayConn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// replay returns a connection whose first bytes were read ahead. It tells its circuit if c
// does.
func replay(c net.Conn, ahead []byte) net.Conn {
	r := &replayConn{Conn: c, ahead: ahead}
	if cc, ok := c.(devp2p.CircuitConn); ok {
		return replayCircuit{r, cc}
	}
	return r
}

type replayCircuit struct {
	*replayConn
	circuit devp2p.CircuitConn
}

// Circuit implements devp2p.CircuitConn.
func (c replayCircuit) Circuit() string { return c.circuit.Circuit() }
