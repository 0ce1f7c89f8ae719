package hsclient

import (
	"testing"

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
		if err != nil || got.blinded != want || got.subcredential != hscrypto.Subcredential(s.id, want) || c.services[s.id] != got {
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
	for n := range maxCached + 1 {
		c.knowService(service{id: ident.Ed25519ID{byte(n), byte(n >> 8)}}, c.epoch)
	}
	c.knowService(service{id: s.id}, c.epoch-1)
	if _, ok := c.knownService(s.id); ok || len(c.services) != maxCached {
		t.Errorf("%d services are remembered", len(c.services))
	}
}
