package hostile

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/simnet"
)

// authWorld has two honest authorities, to which unknown peers send requests and
// uploads, and a third, hostile one, whose votes and signatures have the correct
// format.
type authWorld struct {
	t     *testing.T
	net   *simnet.Network
	good  [2]*authority.Authority
	stop  context.CancelFunc
	wg    sync.WaitGroup
	conns [4]*stranger
	crowd []net.Conn
	// patience is how much virtual time the program may still wait: each round of
	// voting needs signatures, and the fuzzing engine waits at most 10 s for a
	// program.
	patience time.Duration

	mu     sync.Mutex // guards what follows
	vote   []byte     // the latest vote that an honest authority sent to the hostile one
	sig    []byte     // and the latest signatures
	script Insn       // how the hostile authority answers
	ends   map[net.Conn]bool
}

// stranger is a connection of an unknown peer to an authority.
type stranger struct {
	conn net.Conn
	body []byte // bytes that were not sent yet
}

func newAuthWorld(t *testing.T) *authWorld {
	k, err := authNet()
	if err != nil {
		t.Fatal(err)
	}
	w := &authWorld{t: t, net: simnet.NewNetwork(), ends: map[net.Conn]bool{}, patience: 65 * time.Second}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for i := range w.good {
		ln, err := w.net.Listen(authAddr(i))
		if err != nil {
			t.Fatal(err)
		}
		a, err := authority.New(authority.Config{
			Nickname: fmt.Sprintf("auth%d", i), Keys: &authority.Keys{Cert: k.cert[i], Signing: k.signing[i]}, Network: k.network,
			DirPort: authAddr(i), DirListener: ln, Dial: w.net.Dialer(authAddr(i).Addr()),
			Schedule: authority.Schedule{InitialInterval: time.Second, InitialVoteDelay: 200 * time.Millisecond, InitialDistDelay: 200 * time.Millisecond,
				Interval: 10 * time.Second, VoteDelay: 2 * time.Second, DistDelay: 2 * time.Second},
			Accept: authority.AcceptConfig{AllowPrivateAddresses: true, AssumeReachable: true},
			Flags:  authority.FlagConfig{NoThresholdFloor: true, MinFast: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.good[i] = a
		w.wg.Go(func() {
			if err := a.Run(ctx); err != nil {
				t.Error("an authority ends: ", err)
			}
		})
	}
	ln, err := w.net.Listen(authAddr(2))
	if err != nil {
		t.Fatal(err)
	}
	w.wg.Go(func() { w.accept(ln) })
	context.AfterFunc(ctx, func() { ln.Close() })
	for i := range honestRelay {
		w.upload(i)
	}
	return w
}

// upload sends an honest relay's descriptor to the honest authorities.
func (w *authWorld) upload(relay int) {
	w.t.Helper()
	text := descriptor(relay, honestPlatform)
	later(0) // the accept loops take the crowd: a full backlog refuses others
	for i := range w.good {
		answer, err := w.ask(i, fmt.Sprintf("POST /tor/ HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.0 200 ")) {
			w.t.Errorf("an honest relay's descriptor: %.80q %v", answer, err)
		}
	}
}

// ask makes an honest request.
func (w *authWorld) ask(to int, request string) ([]byte, error) {
	c, err := w.net.Dialer(honestAddress)(context.Background(), authAddr(to))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(now().Add(honestTime)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return nil, err
	}
	return io.ReadAll(c)
}

// accept is the hostile authority's directory port.
func (w *authWorld) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		w.ends[c] = true
		how := w.script
		w.mu.Unlock()
		w.wg.Go(func() {
			defer c.Close()
			w.answer(c, how)
		})
	}
}

// answer answers an honest authority, and keeps its vote and signatures. A is the
// kind of answer.
func (w *authWorld) answer(c net.Conn, how Insn) {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20)) // a part is enough
	w.mu.Lock()
	switch r.URL.Path {
	case "/tor/post/vote":
		w.vote = body
	case "/tor/post/consensus-signature":
		w.sig = body
	}
	w.mu.Unlock()
	_ = c.SetWriteDeadline(now().Add(time.Minute))
	switch how.A % 7 {
	case 0:
		fmt.Fprint(c, "HTTP/1.0 200 OK\r\n\r\n")
	case 1: // nothing
		_, _ = c.Read(make([]byte, 1))
	case 2:
		for err == nil {
			_, err = c.Write(append([]byte("HTTP/1.0 200 OK\r\n\r\n"), make([]byte, 1<<16)...))
		}
	case 3: // instead of another authority's document
		w.mu.Lock()
		all := append(bytes.Clone(w.vote), w.sig...)
		w.mu.Unlock()
		fmt.Fprintf(c, "HTTP/1.0 200 OK\r\n\r\n%s", bytes.Repeat(all, 1+int(how.B&15)))
	case 4:
		fmt.Fprintf(c, "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\nx", 1<<how.B)
	case 5:
		for range int(how.B) {
			fmt.Fprint(c, "H")
			time.Sleep(time.Second)
		}
	case 6:
		fmt.Fprintf(c, "HTTP/1.0 %d X\r\n\r\n", how.B)
	}
}

func (w *authWorld) settle() {}

func (w *authWorld) finish() {
	for _, s := range w.conns {
		if s != nil {
			s.conn.Close()
		}
	}
	for _, c := range w.crowd {
		c.Close()
	}
	w.mu.Lock()
	for c := range w.ends {
		c.Close()
	}
	w.script = Insn{}
	w.mu.Unlock()
	later(time.Second) // the authorities find that the crowd has gone
	// A run may have taken a day; descriptors of that age are too old for votes.
	for i := range honestRelay {
		w.upload(i)
	}
	later(25 * time.Second)
	for i, a := range w.good {
		w.checkConsensus(i, a)
		if n := a.Relays(); n > authRelays {
			w.t.Errorf("authority %d knows %d relays, of %d that there are", i, n, authRelays)
		}
	}
	w.stop()
	w.wg.Wait()
}

// checkConsensus checks that there is a new consensus with the honest relays.
func (w *authWorld) checkConsensus(i int, a *authority.Authority) {
	text := a.Consensus(netdoc.FlavorMicrodesc)
	c, err := netdoc.ParseConsensus(text, nil, nil)
	if err != nil {
		w.t.Errorf("authority %d has no consensus: %v", i, err)
		return
	}
	if age := now().Sub(c.ValidAfter); age > 25*time.Second {
		w.t.Errorf("authority %d has a consensus of %v ago", i, age)
	}
	k, err := authNet()
	if err != nil {
		return // newAuthWorld has reported it
	}
	for n := range honestRelay {
		id := netdoc.RSADigest(&k.relays[n].Identity.PublicKey)
		found := false
		for _, r := range c.Routers {
			found = found || r.RSA == ident.RSAID(id)
		}
		if !found {
			w.t.Errorf("the consensus of authority %d lacks an honest relay", i)
		}
	}
	answer, err := w.ask(i, "GET /tor/status-vote/current/consensus-microdesc HTTP/1.0\r\n\r\n")
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.0 200 ")) {
		w.t.Errorf("authority %d does not serve its consensus: %.80q %v", i, answer, err)
	}
}
