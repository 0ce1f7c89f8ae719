package client

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/netdir"
)

// dialHeld begins a stream that waits for a controller, and returns what becomes of it.
func dialHeld(t *testing.T, c *Client) <-chan error {
	c.LeaveUnattached(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() {
		conn, err := c.Dial(ctx, Request{Host: "example.com", Port: 443})
		if err == nil {
			err = conn.Close()
		}
		done <- err
	}()
	return done
}

// TestAttachHopWithoutCircuit: a hop without a circuit means nothing: who knows how long the circuit will be?
func TestAttachHopWithoutCircuit(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.say(cell.RelayEnd, (&cell.End{Reason: cell.EndConnectRefused}).Append(nil))
	h := listen(t, c)
	done := dialHeld(t, c)
	if err := c.Attach(h.waits(t, StreamWaits).ID, 0, 9); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("it opened")
	}
	if l.asked.Load() == 0 {
		t.Error("no exit was asked")
	}
}

// TestUnattachedEndsMeanwhile: a stream that comes while controllers give up attaching streams waits for none.
func TestUnattachedEndsMeanwhile(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			c := &Client{}
			c.ctx, c.cancel = context.WithCancelCause(t.Context())
			c.unattached.Store(true)
			ctx, s := c.beginStream(t.Context(), &Request{Host: "example.com", Port: 443}, false)
			defer s.failed(errClosed)
			got := make(chan error, 1)
			s.mu.Lock()
			go func() {
				_, err := s.awaitAttach(ctx)
				got <- err
			}()
			for range 100 {
				runtime.Gosched()
			}
			c.unattached.Store(false) // LeaveUnattached, which then looks for streams that wait
			s.mu.Unlock()
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClosedWhileOpening: a stream that a controller closes just when it opens is closed, also for who asked for it.
func TestClosedWhileOpening(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	said := cell.Connected{Addr: netip.MustParseAddr("8.8.8.8"), TTL: 60}
	l.say(cell.RelayConnected, said.Append(nil))
	t.Cleanup(c.Watch(&Watcher{Stream: func(r StreamReport) {
		if r.Step == StreamMapped {
			if err := c.CloseStream(r.ID, cell.EndMisc); err != nil {
				t.Error(err)
			}
		}
	}}))
	h := listen(t, c)
	if conn, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 443}); err == nil {
		t.Error("it is open")
		_ = conn.Close()
	}
	id := h.waits(t, StreamClosed).ID
	closed := 0
	for _, s := range h.steps(id) {
		if s == StreamOpened {
			t.Error("it opened after it was closed")
		} else if s == StreamClosed {
			closed++
		}
	}
	if closed != 1 {
		t.Errorf("its end was told %d times", closed)
	}
	if n := c.Status().Streams; n != 0 {
		t.Errorf("%d streams are left", n)
	}
}

// TestRedirectLong: what a controller makes a stream hold is as long as a host name.
func TestRedirectLong(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.say(cell.RelayEnd, (&cell.End{Reason: cell.EndConnectRefused}).Append(nil))
	h := listen(t, c)
	done := dialHeld(t, c)
	id := h.waits(t, StreamWaits).ID
	if err := c.Redirect(id, strings.Repeat("a", 1<<20), 0); err == nil {
		t.Error("a name of a MiB was taken")
	}
	if err := c.Redirect(id, strings.Repeat("a", 63)+".example", 0); err != nil {
		t.Error(err)
	}
	if err := c.Attach(id, 0, 0); err != nil {
		t.Error(err)
	}
	<-done
}

// TestMapAddressesHostile: rules that are no rules are refused, whatever is in them, and no side is longer than a name.
func TestMapAddressesHostile(t *testing.T) {
	cfg := Config{Network: netdir.Public(), Dial: refuse}
	cfg.Map, _ = ParseAddrMap([]string{"*.conf.example other.example", "one.example two.example"})
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	put := func(rules ...Mapped) []error {
		_, errs := c.MapAddresses(rules, [2]netip.Prefix{})
		return errs
	}
	dots := strings.Repeat(".", 1<<16)
	for _, r := range []Mapped{{"\v", ""}, {"\u00a0", ""}, {"\u2003", "\u00a0"}, {"\f", "a b"}, {"a.example", ""}, {"", "a.example"},
		{"a" + dots, "b"}, {"a", "b" + dots}, {"fe80::1%" + strings.Repeat("z", 1<<16), "b"}, {"a", "fe80::1%" + strings.Repeat("z", 1<<16)}} {
		if errs := put(r); errs[0] == nil {
			t.Errorf("%.20q to %.20q was taken", r.From, r.To)
		}
	}
	if n := len(c.Controlled()); n != 0 {
		t.Errorf("%d rules", n)
	}
	// Within one command rules come and go, and each sees what is left of those before it.
	var all []Mapped
	for i := range 3000 {
		h := fmt.Sprintf("h%d.example", i)
		all = append(all, Mapped{h, "b.example"}, Mapped{h, h})
	}
	all = append(all, Mapped{"*.conf.example", "mine.example"}, Mapped{"*.conf.example", "*.conf.example"}, Mapped{"one.example", "mine.example"},
		Mapped{"one.example", "one.example"}, Mapped{"*.one.example", "c.example"}, Mapped{"c.example", "d.example"}, Mapped{"c.example", "c.example"}, Mapped{"c.example", "x.one.example"})
	errs := put(all...)
	for i, err := range errs {
		if (err != nil) != (i == len(errs)-1) {
			t.Errorf("%v: %v", all[i], err)
		}
	}
	for host, want := range map[string]string{"x.conf.example": "other.example", "one.example": "two.example", "x.one.example": "c.example", "c.example": "c.example", "h7.example": "h7.example"} {
		if got, err := c.mapped(host); got != want || err != nil {
			t.Errorf("%s: %s, %v", host, got, err)
		}
	}
	if got := c.Controlled(); len(got) != 1 || got[0].From != "*.one.example" {
		t.Error(got)
	}
	if errs := put(Mapped{"a.example", strings.Repeat("b", 63)}); errs[0] != nil {
		t.Error(errs)
	}
}
