package hsclient

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// TestServiceKeys: a service's keys are those of the time period, are remembered, and are
// forgotten with a new identity.
func TestServiceKeys(t *testing.T) {
	s := newService(t)
	c := newClient(t, &fakeNet{})
	for _, num := range []uint64{1, 1, 2, 1} {
		p := hscrypto.Period{Num: num, Minutes: 1440}
		want, err := hscrypto.Blind(s.id, p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.service(s.id, p)
		if err != nil || got.blinded != want || got.subcredential != hscrypto.Subcredential(s.id, want) || c.services[s.id].service != got {
			t.Errorf("period %d: %v, %v", num, got, err)
		}
	}
	if _, err := c.service(ident.Ed25519ID{2}, hscrypto.Period{Num: 1, Minutes: 1440}); err == nil || len(c.services) != 1 {
		t.Errorf("keys of an address that is no point of the curve: %v, %d are remembered", err, len(c.services))
	}
	c.NewIdentity()
	if len(c.services) != 0 {
		t.Error("a new identity remembers a service")
	}
	c.knowService(service{id: s.id}, c.epoch-1)
	if _, ok := c.knownService(s.id); ok {
		t.Error("what was learned before the new identity is remembered")
	}
}

// TestServicesAreBounded: the one that was not needed for the longest time goes.
func TestServicesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler)})
		defer c.Close()
		id := func(n int) ident.Ed25519ID { return ident.Ed25519ID{byte(n), byte(n >> 8)} }
		for n := range maxCached {
			c.knowService(service{id: id(n)}, c.epoch)
			time.Sleep(time.Second)
		}
		c.knownService(id(0))
		time.Sleep(time.Second)
		for n := range 2 {
			c.knowService(service{id: id(maxCached + n)}, c.epoch)
		}
		for n := range maxCached + 2 {
			if _, ok := c.knownService(id(n)); ok == (n == 1 || n == 2) {
				t.Errorf("service %d is remembered: %v", n, ok)
			}
		}
		if n := len(c.services); n != maxCached {
			t.Errorf("%d services are remembered", n)
		}
	})
}
