package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// TestDormant: a client is dormant until it is used, in whichever way, and what waits for that goes on then.
func TestDormant(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	began := c.LastUse()
	for name, use := range map[string]func(){
		"wake": c.Wake,
		"stream": func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = c.Dial(ctx, Request{Host: "example.com", Port: 443}) // it fails: there is no directory
		},
		"lookup": func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = c.Resolve(ctx, Request{Host: "example.com"})
		},
		"onion": func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = clientNetwork{c}.Internal(ctx, false)
		},
		"bytes": func() {
			var m movement
			m.look(c)
			if !c.Dormant() {
				t.Error("nothing has moved")
			}
			c.m.read.Add(1)
			m.look(c)
		},
	} {
		c.Rest()
		c.Rest()
		if !c.Dormant() || !c.Idle() {
			t.Fatalf("%s: it is not dormant", name)
		}
		went := make(chan bool, 1)
		go func() { went <- c.whileDormant(t.Context()) }()
		select {
		case <-went:
			t.Errorf("%s: a dormant client goes on", name)
		default:
		}
		use()
		if c.Dormant() || c.Idle() || !<-went || !c.LastUse().After(began) {
			t.Errorf("%s: it does not wake", name)
		}
		began = c.LastUse()
	}
	c.Rest()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c.whileDormant(ctx) {
		t.Error("what has ended goes on")
	}
}

// TestBeginsDormant: a client that begins dormant opens no connection and takes no step of the bootstrap until it is used.
func TestBeginsDormant(t *testing.T) {
	asked := make(chan struct{}, 100)
	dial := func(context.Context, netip.AddrPort) (net.Conn, error) {
		asked <- struct{}{}
		return nil, errors.New("nobody answers")
	}
	c, err := New(Config{Network: netdir.Public(), Dial: dial, Rest: true, Unused: 3 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !c.Dormant() || time.Since(c.LastUse()) < 3*time.Hour {
		t.Error("it is awake, or was used:", c.LastUse())
	}
	select {
	case <-asked: // it would be within milliseconds
		t.Error("it connects")
	case <-time.After(200 * time.Millisecond):
	}
	if p := c.Bootstrap().Percent; p != 0 {
		t.Error(p, "% are done")
	}
	c.Wake()
	<-asked
	if p := c.Bootstrap().Percent; p != 10 || time.Since(c.LastUse()) > time.Hour {
		t.Error(p, c.LastUse())
	}
}
