package devp2p_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/program/programtest"

	"github.com/chivenet/chive/devp2p"
)

// TestTorProxyConfig: what would need a look-up, or cannot be a port, is refused.
func TestTorProxyConfig(t *testing.T) {
	for _, cfg := range []devp2p.TorProxyConfig{
		{SOCKS: "localhost:9050"}, {SOCKS: "127.0.0.1"}, {SOCKS: "127.0.0.1:0"}, {SOCKS: "unix:"},
		{Control: "tor:9051"}, {Control: "127.0.0.1:9051", Password: "a\nb"},
	} {
		if _, err := devp2p.TorProxy(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	o, err := devp2p.TorProxy(devp2p.TorProxyConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := o.ListenOnion(t.Context(), "", 1); err == nil || !strings.Contains(err.Error(), "control port") {
		t.Error(err)
	}
	if _, err := o.DialOnion(t.Context(), "127.0.0.1:1", ""); err == nil || !strings.Contains(err.Error(), "onion") {
		t.Error(err)
	}
	o, err = devp2p.TorProxy(devp2p.TorProxyConfig{Control: "192.0.2.1:9051"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.ListenOnion(t.Context(), "", 1); err == nil || !strings.Contains(err.Error(), "this machine") {
		t.Error(err)
	}
}

// echo serves connections by sending back what comes, until the listener ends.
func echo(l net.Listener) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return done
}

// trip sends a line to an onion and waits for it.
func trip(t *testing.T, ctx context.Context, o devp2p.Onions, l devp2p.OnionListener, isolation string) {
	t.Helper()
	var err error
	for ctx.Err() == nil { // a directory may still miss the newest descriptor
		var c net.Conn
		if c, err = o.DialOnion(ctx, fmt.Sprintf("%s:30303", l.Onion()), isolation); err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		fmt.Fprintln(c, "hello")
		b := make([]byte, 6)
		_, err = io.ReadFull(c, b)
		stop()
		c.Close()
		if err == nil {
			return
		}
	}
	t.Fatal(err)
}

// TestTorProxy: Debian's tor hosts an onion that Chive's client reaches, and reaches an
// onion that Chive's client hosts. The key is kept, and the onion comes back after the
// control port was lost.
func TestTorProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no network of relays")
	}
	_, err := lab.FindTor("")
	programtest.Need(t, "C tor", err)
	programtest.NoLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute, Authorities: 1, Relays: 6, Exits: 1, CtorClients: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	daemon := nw.Node("client0")
	// The control port is reached through a forwarder, to cut it off.
	fw := forward(t, daemon.Control)
	stock, err := devp2p.TorProxy(devp2p.TorProxyConfig{SOCKS: daemon.SOCKS, Control: fw.addr, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	chives := devp2p.Embedded(nw.Client)
	defer chives.Close()

	dir := filepath.Join(t.TempDir(), "key")
	began := time.Now()
	l, err := stock.ListenOnion(ctx, dir, 30303)
	if err != nil {
		t.Fatal(err)
	}
	done := echo(l)
	if err := l.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("published in %v", time.Since(began))
	trip(t, ctx, chives, l, "")
	if _, err := stock.ListenOnion(ctx, dir, 30303); !errors.Is(err, chive.ErrConfig) {
		t.Errorf("a second service with one key: %v", err)
	}

	own, err := chives.ListenOnion(ctx, "", 30303)
	if err != nil {
		t.Fatal(err)
	}
	owned := echo(own)
	if err := own.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	trip(t, ctx, stock, own, "")
	trip(t, ctx, stock, own, "a peer")
	own.Close()
	<-owned

	// The daemon drops the service with the connection, and hosts it again.
	fw.cut()
	if err := fw.again(ctx); err != nil {
		t.Error("the control port is not connected again:", err)
	}
	trip(t, ctx, chives, l, "after the cut")

	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-done
	again, err := stock.ListenOnion(ctx, dir, 30303)
	if err != nil {
		t.Fatal(err)
	}
	if again.Onion() != l.Onion() {
		t.Error("the key was not kept")
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// forwarder forwards connections, and can cut them.
type forwarder struct {
	addr  string
	fresh chan struct{} // a connection was made

	mu   sync.Mutex
	live []net.Conn // guarded by mu
}

func forward(t *testing.T, to string) *forwarder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{addr: l.Addr().String(), fresh: make(chan struct{}, 100)}
	t.Cleanup(func() { l.Close(); f.cut() })
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			f.mu.Lock()
			f.live = append(f.live, a, b)
			f.mu.Unlock()
			f.fresh <- struct{}{}
			go func() { io.Copy(a, b); a.Close() }()
			go func() { io.Copy(b, a); b.Close() }()
		}
	}()
	return f
}

// cut ends all connections, and forgets that there were any.
func (f *forwarder) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.live {
		c.Close()
	}
	f.live = nil
	for len(f.fresh) > 0 {
		<-f.fresh
	}
}

// again waits for the next connection.
func (f *forwarder) again(ctx context.Context) error {
	select {
	case <-f.fresh:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
