package client

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestOutdatedCaches: a guard that lacks microdescriptors of the newest consensus is not asked for any until the next one,
// but for all else, as by C tor's clients. With Config.Fast it is.
func TestOutdatedCaches(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 300, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Publish(d.ValidAfter().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	later, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	for _, fast := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(later.ValidAfter().Add(time.Minute)))
			c := isolated(t, made.Network, refuse)
			c.cfg.Fast = fast
			k := newCaches(c)
			defer k.close()
			asked := func(d *netdir.Directory, p dirclient.Purpose) map[ident.RelayID]bool {
				out := map[ident.RelayID]bool{}
				for range 100 {
					target, use, err := k.choose(t.Context(), dirclient.Query{Purpose: p, Directory: d})
					if err != nil || use == nil {
						t.Fatalf("no guard is asked: %v", err)
					}
					use.Cancelled(time.Now())
					out[target.RelayID] = true
				}
				return out
			}
			first := asked(d, dirclient.Microdescriptors)
			if len(first) != 3 {
				t.Fatalf("%d guards", len(first))
			}
			var old ident.RelayID
			for old = range first {
				break
			}
			k.ReportDir(old, dirclient.Microdescriptors, fmt.Errorf("a few: %w", dirclient.ErrLacks))
			if got := asked(d, dirclient.Microdescriptors); got[old] != fast {
				t.Errorf("fast %v: the guard is asked again: %v", fast, got[old])
			}
			if !asked(d, dirclient.Consensus)[old] {
				t.Error("the guard is not asked for a consensus")
			}
			k.ReportDir(old, dirclient.Microdescriptors, nil)
			if got := asked(d, dirclient.Microdescriptors); got[old] != fast {
				t.Errorf("fast %v: the guard is asked again after a better answer: %v", fast, got[old])
			}
			if !asked(later, dirclient.Microdescriptors)[old] {
				t.Error("the guard is not asked for what the next consensus names")
			}
		})
	}
}

// TestOutdatedBounds: neither authorities nor many caches at once count, nor what an old consensus names.
func TestOutdatedBounds(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 10})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	now := d.ValidAfter()
	var o outdated
	o.note(ident.RSAID{1}, nil, made.Network, now)
	o.note(ident.RSAID{1}, d, made.Network, now.AddDate(0, 0, 3))
	o.note(made.Network.Authorities[0].RSA, d, made.Network, now)
	if n := len(o.of(d)); n != 0 {
		t.Errorf("%d are outdated", n)
	}
	for i := range mostOutdated + 2 {
		if n := len(o.of(d)); n != i {
			t.Errorf("%d are outdated, not %d", n, i)
		}
		o.note(ident.RSAID{1, byte(i)}, d, made.Network, now)
		o.note(ident.RSAID{1, byte(i)}, d, made.Network, now)
		if i == mostOutdated {
			break
		}
	}
	if n := len(o.of(d)); n != 1 { // the second report found too many
		t.Errorf("%d are outdated after too many", n)
	}
	if n := len(o.of(nil)); n != 0 {
		t.Errorf("%d are outdated without a consensus", n)
	}
}
