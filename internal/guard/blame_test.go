package guard

import "testing"

// TestBlamedOnce: circuits that waited for one connection report its failure one after the
// other. Only the first counts: what was found out about the guard since is newer.
func TestBlamedOnce(t *testing.T) {
	m := start(t, network(1000))
	var us []*Use
	for range 4 {
		us = append(us, pick(t, m, epoch))
	}
	g := us[0].g
	us[0].Failed(epoch, Unreachable)
	want(t, "after the first report", g.reach, no)
	g.forgive() // the network is back
	us[1].Failed(epoch, Unreachable)
	want(t, "after a report of the same connection", g.reach, maybe)
	next := pick(t, m, epoch)
	want(t, "guard", next.g.id, g.id)
	next.Succeeded(epoch)
	us[2].Failed(epoch, Unreachable)
	want(t, "after a report of a connection before the one that works", g.reach, yes)
	again := pick(t, m, epoch)
	again.Failed(epoch, Unreachable)
	want(t, "after another connection failed", g.reach, no)
	us[3].Failed(epoch, Beyond)
	want(t, "decision", us[3].Decision(), Discard)
}

// TestBeyondBlamesNone: what happens behind the first hop does not make a guard unreachable.
func TestBeyondBlamesNone(t *testing.T) {
	m := start(t, network(1000))
	for range 1000 {
		u := pick(t, m, epoch)
		want(t, "guard", u.g.id, primaries(m)[0])
		u.Failed(epoch, Beyond)
		want(t, "reach", u.g.reach, maybe)
	}
}
