package fte

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fuzzPair returns both sides of a protocol, whose tables are made once.
var fuzzFormats = sync.OnceValue(func() *Definitions {
	d, err := Release("", false)
	if err != nil {
		panic(err) // built in
	}
	return d
})

func fuzzPair(t *testing.T, kind Mode) (client, server Transport) {
	t.Helper()
	defs := fuzzFormats()
	var err error
	if kind == modes {
		p := Classic{Definitions: defs, Format: "hex"}
		if client, err = p.Dialer(); err != nil {
			t.Fatal(err)
		}
		if server, err = p.Acceptor(); err != nil {
			t.Fatal(err)
		}
		return client, server
	}
	req, resp, err := defs.Pair("hex")
	if err != nil {
		t.Fatal(err)
	}
	key := serverKeyFor(t)
	p := Protocol{Request: req, Response: resp, Mode: kind, Cert: key.Cert(), Keys: []*ServerKey{key}}
	if client, err = p.Dialer(); err != nil {
		t.Fatal(err)
	}
	if server, err = p.Acceptor(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// recorder is a connection that keeps what is written to it.
type recorder struct {
	net.Conn
	mu   sync.Mutex
	sent []byte
}

func (c *recorder) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent = append(c.sent, p...)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// puppet is a hostile peer, which does what the fuzzer says.
type puppet struct {
	raw  net.Conn
	c    *Conn // set once its handshake succeeded
	says chan []byte
	done sync.WaitGroup
}

func newPuppet(raw net.Conn) *puppet {
	p := &puppet{raw: raw, says: make(chan []byte, 64)}
	p.done.Go(func() {
		for b := range p.says {
			raw.Write(b) // a server that doesn't want it closes
		}
	})
	return p
}

// say writes behind what was said before.
func (p *puppet) say(b []byte) {
	select {
	case p.says <- b:
	default: // the server reads nothing
	}
}

// queued is a puppet's connection for a client: writes are said, so that one
// that the server doesn't take holds nobody up.
type queued struct {
	net.Conn
	p *puppet
}

func (q queued) Write(b []byte) (int, error) {
	q.p.say(bytes.Clone(b))
	return len(b), nil
}

func (p *puppet) end() {
	p.raw.Close()
	close(p.says)
	p.done.Wait()
}

// FuzzServerSession has hostile peers of one address do things in any order to
// a server with small bounds: hellos that are good, cut, changed and replayed,
// records that are cut, doubled and swapped, ends at every step, and waiting.
// Whatever they do, the server holds no more than its bound, carries an honest
// peer, lets another one in, and has nothing left at the end.
func FuzzServerSession(f *testing.F) {
	// Each step is an operation, a puppet and an argument.
	f.Add(uint8(0), []byte{0, 0, 0, 1, 0, 0, 4, 0, 9, 7, 0, 1})
	f.Add(uint8(1), []byte{0, 0, 0, 2, 0, 40, 7, 0, 200, 0, 1, 0, 3, 1, 255, 6, 1, 0})
	f.Add(uint8(2), []byte{0, 0, 0, 1, 0, 0, 4, 0, 255, 5, 0, 100, 5, 0, 0, 8, 0, 3, 0, 0, 0, 2, 0, 255, 2, 0, 255})
	f.Add(uint8(3), []byte{0, 1, 0, 1, 1, 0, 8, 1, 7, 6, 1, 0, 9, 1, 0, 7, 0, 30, 0, 1, 0, 2, 1, 90})
	f.Fuzz(fuzzServer)
}

func fuzzServer(t *testing.T, kind uint8, steps []byte) {
	const bound = 1 << 20
	steps = steps[:min(len(steps), 3*60)]
	synctest.Test(t, func(t *testing.T) {
		client, server := fuzzPair(t, Mode(kind)%(modes+1))
		pl := newPipeListener()
		l := NewListener(pl, ListenConfig{Transport: server, MaxPending: 4, MaxConns: 4, MaxMemory: bound, HandshakeTimeout: 10 * time.Second})
		go echo(l)
		first := &recorder{Conn: pl.dialFrom(honest)}
		good := client.Wrap(first)
		works(t, good)
		replay := bytes.Clone(first.sent)
		var puppets [4]*puppet
		for ; len(steps) >= 3; steps = steps[3:] {
			i, arg := int(steps[1])%len(puppets), int(steps[2])
			p := puppets[i]
			if p == nil {
				p = newPuppet(pl.dialFrom(hostile))
				puppets[i] = p
			}
			switch steps[0] % 10 {
			case 0: // another connection
				p.end()
				puppets[i] = newPuppet(pl.dialFrom(hostile))
			case 1: // a handshake
				if p.c == nil {
					c := client.Wrap(queued{p.raw, p})
					p.raw.SetDeadline(time.Now().Add(time.Second))
					if c.Handshake() == nil {
						p.c = c
						p.raw.SetDeadline(time.Time{})
					}
				}
			case 2: // the start of a hello that was seen before
				p.say(replay[:len(replay)*arg/255])
			case 3: // no hello
				p.say(bytes.Repeat([]byte{"0f \x80"[arg%4]}, 1+arg*300))
			case 4, 5: // a record, or a part of one
				if p.c == nil {
					break
				}
				head, tail, most := p.c.seal.room()
				n := min(arg*arg, most, wireFrame-head-tail)
				wire, err := p.c.seal.seal(make([]byte, head+n+tail), head, n)
				if err != nil {
					t.Fatal(err)
				}
				wire = bytes.Clone(wire)
				p.c.seal.release()
				if steps[0]%10 == 5 {
					wire = wire[:len(wire)*arg/255]
				}
				if p.say(wire); arg%16 == 1 {
					p.say(wire)
				}
			case 6:
				p.raw.Close()
			case 7:
				time.Sleep(time.Duration(arg) * 100 * time.Millisecond)
			case 8: // read what comes back
				if p.c != nil {
					p.raw.SetReadDeadline(time.Now().Add(time.Second))
					io.CopyN(io.Discard, p.c, int64(arg)*100)
				}
			case 9: // the end of the stream
				if p.c != nil {
					p.c.CloseWrite()
				}
			}
			synctest.Wait()
			if used := l.mem.Used(); used > bound {
				t.Fatalf("%d bytes are held, the bound is %d", used, bound)
			}
			if pending, open := l.crowds(); pending > 4 || open > 4 {
				t.Fatalf("%d handshakes are under way and %d connections open", pending, open)
			}
		}
		works(t, good)
		late := client.Wrap(pl.dialFrom(honest))
		works(t, late)
		late.Close()
		good.Close()
		for _, p := range puppets {
			if p != nil {
				p.end()
			}
		}
		l.Close()
		synctest.Wait()
		pending, open := l.crowds()
		if used := l.mem.Used(); used != 0 || pending != 0 || open != 0 {
			t.Fatalf("%d bytes, %d handshakes and %d connections are left", used, pending, open)
		}
	})
}

// crowds returns how many handshakes are under way, and how many connections open.
func (ln *Listener) crowds() (pending, open int) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.pending.n, ln.open.n
}

// FuzzHTTPSession is the same for requests: of good sessions, of others'
// paths, beside each other, with bodies of any kind that come in part or never,
// and answers that nobody fetches.
func FuzzHTTPSession(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 50, 2, 0, 0, 6, 0, 9})
	f.Add([]byte{3, 0, 200, 4, 0, 100, 6, 0, 255, 0, 1, 0, 2, 1, 9, 5, 1, 255, 6, 0, 3})
	f.Add([]byte{0, 1, 0, 5, 1, 255, 5, 1, 254, 1, 1, 200, 6, 1, 255, 7, 1, 0, 0, 1, 0, 4, 1, 255})
	f.Fuzz(fuzzHTTP)
}

func fuzzHTTP(t *testing.T, steps []byte) {
	const bound = 1 << 20
	steps = steps[:min(len(steps), 3*40)]
	synctest.Test(t, func(t *testing.T) {
		client, server := fuzzPair(t, Strict)
		hs := &HTTPServer{Transport: server, MaxSessions: 6, MaxPending: 4, MaxMemory: bound}
		go echo(hs)
		join := func(from string) (*Conn, *recorder, string) {
			raw, err := HTTPDialer{URL: "http://192.0.2.80/", Client: &http.Client{Transport: straight{hs, from}}}.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			x := &recorder{Conn: raw}
			return client.Wrap(x), x, raw.(*httpConn).c.url
		}
		good, wire, path := join(honestHTTP)
		works(t, good)
		replay := bytes.Clone(wire.sent)
		var conns [4]*Conn
		base := path[:len(path)-2*sessionLen] + strings.Repeat("0", 2*sessionLen-1)
		urls := [4]string{base + "x", base + "0", base + "1", base + "2"}
		var requests sync.WaitGroup
		for ; len(steps) >= 3; steps = steps[3:] {
			i, arg := int(steps[1])%len(conns), int(steps[2])
			body := func(b []byte) {
				r, w := io.Pipe()
				requests.Go(func() {
					post(t, hs, hostileHTTP, urls[i], r)
					r.Close()
				})
				requests.Go(func() {
					w.Write(b)
					if arg%2 == 1 { // it stands still for a while
						time.Sleep(time.Duration(arg) * time.Second)
					}
					w.Close()
				})
			}
			switch steps[0] % 8 {
			case 0: // a session
				if conns[i] != nil {
					conns[i].Close()
				}
				c, _, url := join(hostileHTTP)
				conns[i], urls[i] = c, url
				c.SetDeadline(time.Now().Add(5 * time.Second))
				c.Handshake() // when there is room
				c.SetDeadline(time.Time{})
			case 1:
				if conns[i] != nil {
					conns[i].SetDeadline(time.Now().Add(time.Second))
					conns[i].Write(make([]byte, arg*arg))
					conns[i].SetDeadline(time.Time{})
				}
			case 2: // no more requests of the session's own
				if conns[i] != nil {
					conns[i].raw.(*recorder).Conn.(*httpConn).cancel()
				}
			case 3:
				body(replay[:len(replay)*arg/255])
			case 4:
				body(bytes.Repeat([]byte{"0f \x80"[arg%4]}, arg*300))
			case 5: // as much as there may be, and more
				body(make([]byte, arg*1100))
			case 6:
				time.Sleep(time.Duration(arg*arg) * time.Millisecond)
			case 7:
				if conns[i] != nil {
					conns[i].Close()
				}
			}
			synctest.Wait()
			// Requests that are being evicted may still hold what they have.
			if used := hs.mem.Used(); used > 2*bound {
				t.Fatalf("%d bytes are held, the bound is %d", used, bound)
			}
			hs.mu.Lock()
			sessions, pending := len(hs.sessions), hs.pending.n
			hs.mu.Unlock()
			if sessions > 6 || pending > 4 {
				t.Fatalf("%d sessions and %d pending requests", sessions, pending)
			}
		}
		requests.Wait()
		works(t, good)
		good.Close()
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
		time.Sleep(4 * HTTPIdle)
		hs.Close()
		synctest.Wait()
		if used := hs.mem.Used(); used != 0 || len(hs.sessions) != 0 {
			t.Fatalf("%d bytes and %d sessions are left", used, len(hs.sessions))
		}
	})
}
