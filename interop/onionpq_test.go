package interop

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/lab"
)

// as returns a change to a client's policy.
func as(want chive.Config) func(*chive.Config) {
	return func(cfg *chive.Config) {
		cfg.PQ, cfg.RequireOnionPQ, cfg.CGO, cfg.CongestionControl = want.PQ, want.RequireOnionPQ, want.CGO, want.CongestionControl
	}
}

// accepted is a connection that a service has, with what protects it.
type accepted struct {
	net.Conn
	chive.HopProtection
}

// echoing has a service send back what it gets, and tells of each connection.
func echoing(l *chive.OnionListener) <-chan accepted {
	out := make(chan accepted, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
			out <- accepted{c, c.(*chive.OnionConn).Protection()}
		}
	}()
	return out
}

// bounce sends bytes to a service and reads them back.
func bounce(conn net.Conn, size int64) error {
	defer conn.Close()
	sent, got := sha256.New(), sha256.New()
	failed := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.MultiWriter(conn, sent), target.Bytes(size), size)
		failed <- err
	}()
	if _, err := io.CopyN(got, conn, size); err != nil {
		return err
	}
	if err := <-failed; err != nil {
		return err
	}
	if string(sent.Sum(nil)) != string(got.Sum(nil)) {
		return errors.New("other bytes came back")
	}
	return nil
}

// TestPostQuantumOnion has Chive's services and clients protect their hop through
// relays of stock C tor, and stock clients and services notice nothing of it.
func TestPostQuantumOnion(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	nw := onionNetwork(t, ctx)
	host, told := host(t, nw)
	l := serve(t, host, chive.OnionConfig{Ports: []int{7}, Targets: map[int]string{80: shared.target.Addr(target.Web)}})
	conns := echoing(l)
	dial := func(c *chive.Client) (net.Conn, time.Duration, error) {
		began := time.Now()
		conn, err := c.Isolated().DialContext(bounded(t, patience), "tcp", l.Address()+":7")
		return conn, time.Since(began), err
	}

	for _, k := range []struct {
		name  string
		cfg   chive.Config
		pq    bool
		layer string // of the cells
		count int
	}{
		{"preferred", chive.Config{}, true, "cgo", 20},
		{"required", chive.Config{RequireOnionPQ: true}, true, "cgo", 3},
		{"off", chive.Config{PQ: chive.PQOff}, false, "cgo", 20},
		{"without CGO", chive.Config{CGO: chive.SwitchOff}, true, "tor1-sha3", 3},
		{"without congestion control", chive.Config{CongestionControl: chive.SwitchOff}, true, "tor1-sha3", 3},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := onionClient(t, ctx, nw, as(k.cfg))
			var took []time.Duration
			for i := range k.count {
				conn, d, err := dial(c)
				if err != nil {
					t.Fatal(i, err)
				}
				took = append(took, d)
				size := int64(1000)
				if i == 0 {
					size = 5 << 20
				}
				if err := bounce(conn, size); err != nil {
					t.Error(i, err)
				}
				served := <-conns
				p := served.HopProtection
				if i == 0 && k.pq { // what came last came after the rekey
					if p := served.Conn.(*chive.OnionConn).Protection(); p.Carriage != "B" {
						t.Errorf("5 MB later, a connection is protected by %+v", p)
					}
				}
				if p.Handshake != "hs-ntor" || (p.PQ == "pq768") != k.pq || p.Layer != k.layer {
					t.Errorf("connection %d is protected by %+v", i, p)
				}
			}
			slices.Sort(took)
			t.Logf("%d connects, each over a new rendezvous: median %v, least %v", len(took), took[len(took)/2].Round(time.Millisecond), took[0].Round(time.Millisecond))
		})
	}
	t.Run("a stock client", func(t *testing.T) {
		proxy := newStock(t, nw).SOCKS
		if sum, n := fetchHosted(t, proxy, fmt.Sprintf("http://%s/bytes/100000", l.Address())); n != 100000 || sum != target.Sum(100000) {
			t.Errorf("%d bytes", n)
		}
		d := socksclient.Dialer{Proxy: proxy.String()}
		conn, err := d.DialContext(bounded(t, patience), "tcp", l.Address()+":7")
		if err != nil {
			t.Fatal(err)
		}
		if err := bounce(conn, 1000); err != nil {
			t.Error(err)
		}
		if p := (<-conns).HopProtection; p.PQ != "" || p.Carriage != "" || p.Layer != "tor1-sha3" {
			t.Errorf("a stock client's connection is protected by %+v", p)
		}
	})
	t.Run("a stock service", func(t *testing.T) {
		address := serveOnion(t, ctx, nw, shared.target.Addr(target.Web)).host
		prefers := onionClient(t, ctx, nw, as(chive.Config{}))
		if err := fetchOnion(ctx, prefers, address, 100000); err != nil {
			t.Error(err)
		}
		requires := onionClient(t, ctx, nw, as(chive.Config{RequireOnionPQ: true}))
		if conn, err := requires.DialContext(bounded(t, patience), "tcp", address+":80"); !errors.Is(err, chive.ErrOnionClassical) || !errors.Is(err, chive.ErrPolicy) {
			t.Errorf("a service without a key was reached: %v, %v", conn, err)
		}
	})
	t.Run("a service that demands it", func(t *testing.T) {
		c := onionClient(t, ctx, nw, as(chive.Config{RequireOnionPQ: true}))
		l := serve(t, c, chive.OnionConfig{Ports: []int{7}})
		conns := echoing(l)
		conn, err := onionClient(t, ctx, nw, as(chive.Config{})).DialContext(bounded(t, patience), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := bounce(conn, 1000); err != nil {
			t.Error(err)
		}
		if p := (<-conns).HopProtection; p.PQ != "pq768" {
			t.Errorf("protected by %+v", p)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if conn, err := onionClient(t, ctx, nw, as(chive.Config{PQ: chive.PQOff})).DialContext(ctx, "tcp", l.Addr().String()); err == nil {
			conn.Close()
			t.Error("a client without it was let in")
		}
	})
	if text := told.String(); strings.Contains(text, "level=WARN") || strings.Contains(text, "level=ERROR") {
		t.Errorf("the service's log:\n%s", text)
	}
}

// TestPostQuantumOnionEveryHop: in a network of Chive alone, a client and a service can
// demand it of every hop.
func TestPostQuantumOnionEveryHop(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute, Relays: 6, Client: chive.Config{PQ: chive.PQRequireAll}})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	l, err := nw.Client.Listen(ctx, chive.OnionConfig{Ports: []int{7}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	conns := echoing(l)
	conn, err := nw.Client.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := bounce(conn, 1<<20); err != nil {
		t.Error(err)
	}
	if p := (<-conns).HopProtection; p.PQ != "pq768" || p.Layer != "cgo" {
		t.Errorf("protected by %+v", p)
	}
	virtual := 0
	for _, c := range nw.Client.Status().Open {
		for i, h := range c.Hops {
			if h.PQ == "" {
				t.Errorf("hop %d of a circuit of %d is protected by %+v", i+1, len(c.Hops), h)
			}
			if h.Handshake == "hs-ntor" {
				virtual++
			}
		}
	}
	if virtual < 2 {
		t.Errorf("%d ends of rendezvous are in status", virtual)
	}
}
