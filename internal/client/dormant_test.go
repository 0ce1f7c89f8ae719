package client

import (
	"context"
	"testing"

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
