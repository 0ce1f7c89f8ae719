package dirclient

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

func TestRefreshWindow(t *testing.T) {
	n, err := dirgen.New(dirgen.Options{Relays: 3})
	if err != nil {
		t.Fatal(err)
	}
	var l netdir.Loader
	d, _, err := l.Consensus(n.Consensus, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := New(Config{Network: &netdir.Network{}})
	client.latest = d
	within := func(from, to time.Time) {
		t.Helper()
		for range 100 {
			if at := client.refreshTime(); at.Before(from) || !at.Before(to) {
				t.Errorf("%v is not from %v to %v", at, from, to)
			}
		}
	}
	for _, c := range []struct{ interval, from, to time.Duration }{
		{0, 105 * time.Minute, 105*time.Minute + 75*time.Minute*7/8}, // the specification's example
		{time.Minute, 90 * time.Second, 2 * time.Minute},
		{2 * time.Hour, 2 * time.Hour, 2*time.Hour + 52*time.Minute + 30*time.Second},
	} {
		from, to := refreshWindow(d, c.interval)
		if from.Sub(d.ValidAfter()) != c.from || to.Sub(d.ValidAfter()) != c.to {
			t.Errorf("%v: %v to %v", c.interval, from.Sub(d.ValidAfter()), to.Sub(d.ValidAfter()))
		}
		client.cfg.Network.Testing.VotingInterval = c.interval
		within(from, to)
	}
	client.cfg.Early = true // an hour's consensus: after two minutes, within half an hour
	within(d.FreshUntil().Add(2*time.Minute), d.FreshUntil().Add(30*time.Minute))
}

func TestBackoffGrows(t *testing.T) {
	var b backoff
	last := time.Duration(0)
	for range 100 {
		d := b.next()
		if d < time.Second || d > maxDelay || d > max(2*time.Second, 3*last) {
			t.Fatalf("%v after %v", d, last)
		}
		last = d
	}
	if b.reset(); b.next() > 2*time.Second {
		t.Error("it does not begin anew")
	}
}
