package client

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/testvec/dirgen"
	"github.com/chivenet/chive/internal/upstream"
)

// answering is a proxy that takes each connection, and gives these answers.
func answering(t *testing.T, answers ...string) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(context.Context, netip.AddrPort) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			b := make([]byte, 64)
			for _, a := range answers {
				if _, err := far.Read(b); err != nil {
					return
				}
				if _, err := io.WriteString(far, a); err != nil {
					return
				}
			}
		}()
		return near, nil
	}
}

// once dials once, and then refuses.
func once(dial func(context.Context, netip.AddrPort) (net.Conn, error)) func(context.Context, netip.AddrPort) (net.Conn, error) {
	var used atomic.Bool
	return func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		if used.Swap(true) {
			return refuse(ctx, a)
		}
		return dial(ctx, a)
	}
}

// TestProxyIsNoGuard: guards do not become unreachable because the upstream proxy fails,
// and do if the proxy says that it cannot connect to them, or if there is no proxy.
func TestProxyIsNoGuard(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	silent := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	proxy, err := upstream.Parse("socks5://127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		proxy  *upstream.Proxy
		dial   func(context.Context, netip.AddrPort) (net.Conn, error)
		within time.Duration
		fast   bool
		blames bool // the guard
	}{
		"proxy refuses connections": {proxy, refuse, time.Minute, false, false},
		"proxy wants a password":    {proxy, answering(t, "\x05\xff"), time.Minute, false, false},
		"proxy is none":             {proxy, answering(t, "HTTP/1.1 400 Bad\r\n"), time.Minute, false, false},
		"proxy is silent":           {proxy, silent, 50 * time.Millisecond, false, false},
		"guard refuses the proxy":   {proxy, answering(t, "\x05\x00", "\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00"), time.Minute, false, true},
		"guard is silent":           {proxy, answering(t, "\x05\x00", ""), time.Minute, false, true},
		"proxy ends":                {proxy, once(answering(t, "\x05\x00", "")), time.Minute, false, false},
		"guard refuses":             {nil, refuse, time.Minute, false, true},
		"guard is silent, no proxy": {nil, silent, 50 * time.Millisecond, false, false}, // it was for a moment
		"guard is silent, in haste": {nil, silent, 50 * time.Millisecond, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := New(Config{Network: made.Network, Dial: c.dial, Upstream: c.proxy, Fast: c.fast})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			client.newDirectory(d)
			ctx, cancel := context.WithTimeoutCause(t.Context(), c.within, errBuildTimeout)
			defer cancel()
			down := func() bool {
				return slices.ContainsFunc(client.guards.Status(time.Now()).Guards, func(g guard.GuardInfo) bool { return g.Reachable == "no" })
			}

			// A circuit.
			p, err := client.choosePath(d, &path.Spec{Hops: 3, Dests: []path.Dest{{Port: 443}}}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			b := &building{Client: client, path: p, life: lifeOf(client, p), start: time.Now()}
			if _, err = client.link(ctx, p.Targets()[0]); err == nil {
				t.Fatal("a link")
			}
			b.reportFailure(t.Context(), err, time.Now())
			if down() != c.blames {
				t.Errorf("a circuit blames the guard: %v, %v", !c.blames, err)
			}

			// A directory circuit.
			k := newCaches(client)
			target, use, err := k.choose(t.Context(), dirclient.Query{Purpose: dirclient.Microdescriptors, Directory: d})
			if err != nil || use == nil {
				t.Fatal(err)
			}
			ctx, cancel = context.WithTimeoutCause(t.Context(), c.within, errBuildTimeout)
			defer cancel()
			if _, err := k.get(ctx, target, use); err == nil {
				t.Fatal("a circuit")
			}
			if down() != c.blames {
				t.Errorf("a directory circuit blames the guard: %v", !c.blames)
			}
		})
	}
}
