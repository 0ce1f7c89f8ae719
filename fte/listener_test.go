package fte

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener accepts ends of net.Pipe, so that time can be virtual.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial() net.Conn {
	a, b := net.Pipe()
	l.conns <- b
	return a
}

// TestProbes sends what strangers send, of many lengths, and at many times:
// every probe is met by silence until a time that was drawn before it said
// anything.
func TestProbes(t *testing.T) {
	for _, mode := range modesAndClassic(t) {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 10 * time.Second
			pl := newPipeListener()
			l := NewListener(pl, ListenConfig{Transport: mode.server, HandshakeTimeout: timeout})
			defer l.Close()
			for _, probe := range [][]byte{
				nil, []byte("A"), bytes.Repeat([]byte("A"), 255), bytes.Repeat([]byte("A"), 256), bytes.Repeat([]byte("A"), 257),
				noise(4096, 1), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), mode.replay, mode.replay[:len(mode.replay)-1],
			} {
				start := time.Now()
				c := pl.dial()
				go c.Write(probe)
				b, err := io.ReadAll(c)
				if err != nil || len(b) > 0 {
					t.Errorf("%s: a probe of %d bytes gets %d bytes, %v", mode.name, len(probe), len(b), err)
				}
				if d := time.Since(start); d < timeout || d >= 2*timeout {
					t.Errorf("%s: a probe of %d bytes is closed after %v", mode.name, len(probe), d)
				}
				c.Close()
			}
			if n := l.cfg.Stats.Opened.Load(); n != 0 {
				t.Errorf("%s: %d probes got in", mode.name, n)
			}
		})
	}
}

type probed struct {
	name   string
	server Transport
	replay []byte
}

// modesAndClassic returns a server of each protocol and mode, and the opening
// of a client that is a stranger to it: a replay, or one with another key.
func modesAndClassic(t *testing.T) []probed {
	t.Helper()
	srv, err := Classic{}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	all := []probed{{"classic", srv, stream(t, Classic{Key: Key{1}}, []byte("x"))}}
	for m := range modes {
		_, server := chivePair(t, "hex", Protocol{Mode: m})
		other, _ := chivePair(t, "hex", Protocol{Mode: m})
		var out capture
		c := other.(chiveClient)
		conn := newConn(helloOnly{&out}, c)
		if err := conn.Handshake(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		all = append(all, probed{m.String(), server, bytes.Clone(out.b.Bytes())})
	}
	return all
}

// helloOnly is a peer that never answers.
type helloOnly struct{ *capture }

func (helloOnly) Read([]byte) (int, error) { return 0, io.EOF }

// TestDecoy hands strangers to a decoy, with what they have said.
func TestDecoy(t *testing.T) {
	_, server := chivePair(t, "hex", Protocol{})
	synctest.Test(t, func(t *testing.T) {
		pl := newPipeListener()
		l := NewListener(pl, ListenConfig{Transport: server, Decoy: func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			go func() {
				defer b.Close()
				line := make([]byte, 5)
				if _, err := io.ReadFull(b, line); err == nil {
					b.Write(append([]byte("decoy got "), line...))
				}
			}()
			return a, nil
		}})
		defer l.Close()
		for probe, wait := range map[string]time.Duration{"GET /": 0, "abcde": defaultHold} {
			start := time.Now()
			c := pl.dial()
			go io.WriteString(c, probe)
			b, err := io.ReadAll(c)
			if err != nil || string(b) != "decoy got "+probe {
				t.Errorf("%q gets %q, %v", probe, b, err)
			}
			if d := time.Since(start); d != wait {
				t.Errorf("%q is answered after %v", probe, d)
			}
			c.Close()
		}
	})
}

// TestBoundedPending opens many connections that never finish a handshake.
func TestBoundedPending(t *testing.T) {
	_, server := chivePair(t, "manual-http", Protocol{})
	l := NewListener(listen(t), ListenConfig{Transport: server, MaxPending: 20})
	defer l.Close()
	conns := make([]net.Conn, 60)
	for i := range conns {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	for i, c := range conns[:40] { // the oldest were closed
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("connection %d is still open: %v", i, err)
		}
	}
	if n := l.cfg.Stats.Evicted.Load(); n != 40 {
		t.Errorf("%d connections were closed for newer ones", n)
	}
}

// TestManyIdle holds ten thousand connections, idle and half-finished, and
// bounds what they cost.
func TestManyIdle(t *testing.T) {
	if testing.Short() {
		t.Skip("short: ten thousand connections take descriptors and a second")
	}
	n := min(10_000, descriptors(t)/2-200)
	client, server := chivePair(t, "manual-http", Protocol{})
	l := NewListener(listen(t), ListenConfig{Transport: server, MaxPending: 20_000})
	defer l.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var keep []net.Conn
	defer func() {
		for _, c := range keep {
			c.Close()
		}
	}()
	half := []byte("GET /abc")
	for i := range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		keep = append(keep, c)
		switch i % 10 {
		case 0: // authenticated, and idle
			if err := client.Wrap(c).Handshake(); err != nil {
				t.Fatal(err)
			}
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			keep = append(keep, s)
			go io.Copy(io.Discard, s)
		case 1, 2, 3, 4, 5: // half a hello
			if _, err := c.Write(half); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / int64(n)
	if n < 10_000 {
		t.Logf("only %d connections: the hard limit of open files is lower", n)
	}
	t.Logf("%d connections cost %d bytes each, both ends", n, each)
	if each > 24<<10 {
		t.Errorf("a connection costs %d bytes", each)
	}
}
