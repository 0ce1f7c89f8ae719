package guard

import (
	"testing"
	"time"
)

// Directory requests go to all primary guards at once. The one that answers first does not
// become the guard of all traffic: the fastest guards would get up to three times the share
// of clients that their bandwidth gives them, with whoever runs them.
func TestFastestGuardWinsNothing(t *testing.T) {
	m := start(t, network(1000))
	first := primaries(m)[0]
	for n := 0; ; n++ {
		u := pickFor(t, m, Request{Purpose: Directory1Hop}, epoch)
		if u.Guard().ID != first {
			want(t, "directory request", u.Succeeded(epoch), UseNow)
			break
		}
		if u.Cancelled(epoch); n == 1000 {
			t.Fatal("directory requests go to one guard only")
		}
	}
	want(t, "guard for traffic", pick(t, m, epoch).Guard().ID, first)
}

// A local network that blocks a new client's guards until the client uses another one chooses
// its guard while it does so, not for the months after.
func TestBlockedForAMoment(t *testing.T) {
	store := &MemStore{}
	m, err := New(config(1), store, epoch)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(network(1000), epoch)
	first := primaries(m)[0]
	fail(t, m, 5, epoch)
	u := pick(t, m, epoch)
	want(t, "what is not blocked", u.Succeeded(epoch), UseNow)
	at := epoch.Add(time.Hour)
	want(t, "guard, later", pick(t, m, at).Guard().ID, first)
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	if m, err = New(config(2), store, at); err != nil {
		t.Fatal(err)
	}
	m.Update(network(1000), at)
	want(t, "guard, after a restart", pick(t, m, at).Guard().ID, first)
}
