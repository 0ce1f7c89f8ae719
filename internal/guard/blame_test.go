package guard

import (
	"testing"
	"time"
)

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

// TestUnanswered: what a guard did to one directory request counts by itself: that a circuit was complete since the request
// was sent does not excuse it.
func TestUnanswered(t *testing.T) {
	m := start(t, network(50))
	asked := pickFor(t, m, Request{Purpose: Directory1Hop}, epoch)
	m.p.UsePrimary = m.p.Primary
	other := pickFor(t, m, Request{Allow: func(c Candidate) bool { return c.ID == asked.Guard().ID }}, epoch)
	other.Succeeded(epoch)
	asked.Failed(epoch, Unanswered)
	if g := m.cur.find(asked.Guard().ID.RSA); g.reach != no {
		t.Errorf("the guard is %v", g.reach)
	}
	// Nor does it last: the next circuit shows whether the guard is up.
	pickFor(t, m, Request{Allow: func(c Candidate) bool { return c.ID == asked.Guard().ID }}, epoch.Add(10*time.Minute)).Succeeded(epoch.Add(10 * time.Minute))
	if g := m.cur.find(asked.Guard().ID.RSA); g.reach != yes {
		t.Errorf("the guard is %v after a success", g.reach)
	}
}
