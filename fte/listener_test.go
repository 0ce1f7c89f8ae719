package fte

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
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

// TestProbes sends what strangers send, of many lengths, at once and byte by
// byte: every probe is met by silence until a time that was drawn before it
// said anything, and opens nothing behind the server.
func TestProbes(t *testing.T) {
	for _, mode := range modesAndClassic(t) {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 10 * time.Second
			pl := newPipeListener()
			l := NewListener(pl, ListenConfig{Transport: mode.server, HandshakeTimeout: timeout})
			defer l.Close()
			// No connection is dialed for an unauthenticated client.
			var dialed atomic.Int64
			p := &Proxy{Dial: func(context.Context) (net.Conn, error) {
				dialed.Add(1)
				return nil, errors.New("dialed")
			}}
			go p.Serve(context.Background(), l) // ends with l
			for i, probe := range strangers(mode) {
				start := time.Now()
				c := pl.dial()
				go func() {
					if i%2 == 0 {
						c.Write(probe)
						return
					}
					for k := range probe { // over two seconds
						c.Write(probe[k : k+1])
						time.Sleep(2 * time.Second / time.Duration(len(probe)))
					}
				}()
				b, err := io.ReadAll(c)
				if err != nil || len(b) > 0 {
					t.Errorf("%s: a probe of %d bytes gets %d bytes, %v", mode.name, len(probe), len(b), err)
				}
				if d := time.Since(start); d < timeout || d >= 2*timeout {
					t.Errorf("%s: a probe of %d bytes is closed after %v", mode.name, len(probe), d)
				}
				c.Close()
			}
			if n, d := l.cfg.Stats.Opened.Load(), dialed.Load(); n != 0 || d != 0 {
				t.Errorf("%s: %d probes got in, for %d the upstream was dialed", mode.name, n, d)
			}
		})
	}
}

// strangers returns what is no hello of a mode, each twice.
func strangers(mode probed) (all [][]byte) {
	for _, p := range [][]byte{
		nil, []byte("A"), bytes.Repeat([]byte("A"), 255), bytes.Repeat([]byte("A"), 256), bytes.Repeat([]byte("A"), 257),
		noise(4096, 1), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), mode.replay, mode.replay[:len(mode.replay)-1],
	} {
		all = append(all, p, p)
	}
	return all
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

// TestDecoyGetsAll: whatever a stranger sends, the decoy gets it as it is, and
// the stranger the decoy's answer.
func TestDecoyGetsAll(t *testing.T) {
	for _, mode := range modesAndClassic(t) {
		synctest.Test(t, func(t *testing.T) {
			pl := newPipeListener()
			seen := make(chan []byte, 1)
			want := 0
			l := NewListener(pl, ListenConfig{Transport: mode.server, Decoy: func(context.Context) (net.Conn, error) {
				a, b := net.Pipe()
				n := want
				go func() {
					defer b.Close()
					got := make([]byte, n)
					io.ReadFull(b, got)
					seen <- got
					io.WriteString(b, "no such page")
				}()
				return a, nil
			}})
			defer l.Close()
			for _, probe := range strangers(mode) {
				want = len(probe)
				c := pl.dial()
				go c.Write(probe)
				b, err := io.ReadAll(c)
				if err != nil || string(b) != "no such page" {
					t.Errorf("%s: a probe of %d bytes gets %q, %v", mode.name, len(probe), b, err)
				}
				if got := <-seen; !bytes.Equal(got, probe) {
					t.Errorf("%s: of a probe of %d bytes the decoy gets %d", mode.name, len(probe), len(got))
				}
				c.Close()
			}
		})
	}
}

// TestBoundedPending opens many connections that never finish a handshake.
func TestBoundedPending(t *testing.T) {
	_, server := chivePair(t, "manual-http", Protocol{})
	l := NewListener(loopback(t), ListenConfig{Transport: server, MaxPending: 20, HandshakeTimeout: time.Hour})
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
		c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d is still open: %v", i, err)
		}
	}
	if n := l.cfg.Stats.Evicted.Load(); n != 40 {
		t.Errorf("%d connections were closed for newer ones", n)
	}
}

// TestManyIdle holds ten thousand connections of another process, idle and
// half-finished, and bounds what they cost the server.
func TestManyIdle(t *testing.T) {
	const n, most = 10_000, 12 << 10 // connections, bytes each
	if at := os.Getenv("CHIVE_IDLE_AT"); at != "" {
		idle(t, at, n)
		return
	}
	if testing.Short() {
		t.Skip("SKIPPED, NOT PROVEN: short: ten thousand connections take descriptors and a second")
	}
	if d := descriptors(t); d < n+100 {
		missing(t, "%d open files are too few for %d connections", d, n)
	}
	key := serverKeyFor(t)
	f := mustFormat(t, "manual-http-request")
	server, err := Protocol{Request: f, Response: mustFormat(t, "manual-http-response"), Keys: []*ServerKey{key}}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	stats := new(Stats)
	l := NewListener(loopback(t), ListenConfig{Transport: server, MaxPending: 20_000, HandshakeTimeout: time.Hour, Stats: stats})
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer c.Close()
				io.Copy(io.Discard, c)
			}()
		}
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peer := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestManyIdle$", "-test.v")
	peer.Env = append(os.Environ(), "CHIVE_IDLE_AT="+l.Addr().String(), "CHIVE_IDLE_CERT="+key.Cert().Line())
	said := &lineWaiter{want: "all are there", seen: make(chan struct{})}
	peer.Stdout, peer.Stderr = said, said
	end, err := peer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := peer.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- peer.Wait() }()
	select {
	case <-said.seen:
	case err := <-exited:
		t.Fatalf("the other process ended: %v: %s", err, said.b.String())
	case <-time.After(2 * time.Minute):
		t.Fatal("the other process isn't ready after two minutes")
	}
	// The last ones were dialed, and may wait to be accepted, or for a turn to
	// end their handshake.
	for late := time.Now().Add(time.Minute); stats.Opened.Load() < n/10 || stats.Pending.Load()+int64(stats.Opened.Load()) < n; {
		if time.Now().After(late) {
			t.Fatalf("of %d connections that came in %d are open", stats.Accepted.Load(), stats.Opened.Load())
		}
		time.Sleep(time.Millisecond)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / n
	counted := l.mem.Used() / n
	pending, opened, lost := stats.Pending.Load(), stats.Opened.Load(), stats.Evicted.Load()+stats.Failed.Load()
	end.Close()
	if err := <-exited; err != nil {
		t.Errorf("the other process: %v", err)
	}
	t.Logf("%d connections, %d of them authenticated, cost the server %d bytes each", pending+int64(opened), opened, each)
	if pending+int64(opened) != n || opened != n/10 || lost != 0 {
		t.Errorf("of %d connections %d are pending, %d open and %d lost", n, pending, opened, lost)
	}
	if each > most || each > counted {
		t.Errorf("a connection costs %d bytes, and is counted as %d", each, counted)
	}
}

// idle opens n connections and holds them until standard input ends: a tenth
// of them are authenticated, half have sent half a hello, and the others nothing.
func idle(t *testing.T, at string, n int) {
	if d := descriptors(t); d < n+100 {
		t.Fatalf("%d open files are too few for %d connections", d, n)
	}
	cert, err := ParseCert(os.Getenv("CHIVE_IDLE_CERT"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := Protocol{
		Request: mustFormat(t, "manual-http-request"), Response: mustFormat(t, "manual-http-response"), Cert: cert,
	}.Dialer()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		defer c.Close()
		switch i % 10 {
		case 0:
			if err := client.Wrap(c).Handshake(); err != nil {
				t.Fatal(err)
			}
		case 1, 2, 3, 4, 5:
			if _, err := io.WriteString(c, "GET /abc"); err != nil {
				t.Fatal(err)
			}
		}
	}
	fmt.Println("all are there")
	io.Copy(io.Discard, os.Stdin)
}

// TestBoundedWaiting: who is authenticated and is not accepted is bounded too.
func TestBoundedWaiting(t *testing.T) {
	client, server := chivePair(t, "hex", Protocol{})
	raw := loopback(t)
	l := NewListener(raw, ListenConfig{Transport: server, MaxPending: 3})
	defer l.Close()
	const all = 8
	ended := make(chan error, all)
	for range all {
		raw, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		c := client.Wrap(raw)
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
	}
	for n := range all - 3 {
		select {
		case err := <-ended:
			if err == nil {
				t.Fatal("a byte came from nobody")
			}
		case <-time.After(60 * time.Second):
			t.Fatalf("%d connections were closed, not 5", n)
		}
	}
	for range 3 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	// One that is told to go as it goes counts twice.
	if n := l.cfg.Stats.Evicted.Load(); n < 5 || n > all {
		t.Errorf("%d connections were closed, not 5", n)
	}
}
