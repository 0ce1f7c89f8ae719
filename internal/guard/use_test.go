package guard

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

func TestPrimaryIsTheFirstOfTheSample(t *testing.T) {
	m := start(t, network(1000))
	want(t, "primary guards", primaries(m), sample(m)[:3])
	for range 50 {
		u := pick(t, m, epoch)
		if u.Guard().ID != primaries(m)[0] || u.state != usableOnCompletion {
			t.Fatal("traffic must use the first primary guard")
		}
		want(t, "before it is complete", u.Decision(), Undecided)
		want(t, "decision", u.Succeeded(epoch), UseNow)
		<-u.Decided()
		u.Closed(epoch, true)
	}
	if len(m.uses) != 0 {
		t.Fatal("closed circuits are remembered")
	}
}

func TestNumberOfGuardsToUse(t *testing.T) {
	d := network(1000)
	d.params["guard-n-primary-guards-to-use"] = 2
	d.params["guard-n-primary-guards"] = 4
	m := start(t, d)
	count := func(r Request) map[ident.RelayID]int {
		n := map[ident.RelayID]int{}
		for range 3000 {
			u := pickFor(t, m, r, epoch)
			n[u.Guard().ID]++
			u.Cancelled(epoch)
		}
		return n
	}
	for p, k := range map[Purpose]int{Traffic: 2, Directory1Hop: 3} {
		n := count(Request{Purpose: p})
		want(t, "guards in use", len(n), k)
		for i, id := range primaries(m)[:k] {
			if e := 3000 / k; math.Abs(float64(n[id]-e)) > 200 {
				t.Errorf("guard %d was used %d times, not about %d", i, n[id], e)
			}
		}
	}
}

func TestNextPrimaryWhenOneIsDown(t *testing.T) {
	m := start(t, network(1000))
	p := primaries(m)
	want(t, "failed", fail(t, m, 2, epoch), p[:2])
	u := pick(t, m, epoch)
	want(t, "guard", u.Guard().ID, p[2])
	want(t, "decision", u.Succeeded(epoch), UseNow)
	want(t, "primary guards", primaries(m), p)
}

func TestRetrySchedule(t *testing.T) {
	for _, v := range []struct{ failing, primary, other time.Duration }{
		{0, 10 * time.Minute, time.Hour},
		{6 * time.Hour, 10 * time.Minute, time.Hour},
		{6*time.Hour + 1, 90 * time.Minute, 4 * time.Hour},
		{4 * day, 90 * time.Minute, 4 * time.Hour},
		{4*day + 1, 4 * time.Hour, 18 * time.Hour},
		{7 * day, 4 * time.Hour, 18 * time.Hour},
		{7*day + 1, 9 * time.Hour, 36 * time.Hour},
		{400 * day, 9 * time.Hour, 36 * time.Hour},
	} {
		if p, o := retryDelay(v.failing, true), retryDelay(v.failing, false); p != v.primary || o != v.other {
			t.Errorf("failing for %v: %v and %v", v.failing, p, o)
		}
	}
	m := start(t, network(1000))
	p := primaries(m)
	fail(t, m, 1, epoch)
	want(t, "before the retry", pick(t, m, epoch.Add(10*time.Minute-1)).Guard().ID, p[1])
	u := pick(t, m, epoch.Add(10*time.Minute))
	want(t, "at the retry", u.Guard().ID, p[0])
	// It fails again: the time since the first failure counts.
	at := epoch.Add(7 * time.Hour)
	u.Failed(at, Unreachable)
	u.g.lastTried = at
	want(t, "retry of a guard that fails for hours", u.g.retryAt(at), at.Add(90*time.Minute))
	u = pick(t, m, at.Add(90*time.Minute))
	u.Succeeded(at.Add(90 * time.Minute))
	if !u.g.failingSince.IsZero() || u.g.reach != yes {
		t.Fatal("a success must clear the failures")
	}
}

// When a guard is tried again is told by the wall clock: the machine may be
// suspended, and its clock may be set.
func TestRetryAfterClockChange(t *testing.T) {
	d := network(1000)
	d.at = time.Now() // with a monotonic reading, as the client has it
	m := start(t, d)
	p := primaries(m)
	u := pick(t, m, d.at)
	u.Failed(d.at, Unreachable)
	if g := u.g; g.lastTried != g.lastTried.Round(0) || g.failingSince != g.failingSince.Round(0) {
		t.Errorf("tried %v, failing since %v: with a monotonic reading", g.lastTried, g.failingSince)
	}
	want(t, "a moment before", pick(t, m, d.at.Add(-time.Second)).Guard().ID, p[1])
	want(t, "set back by a day", pick(t, m, d.at.Add(-day)).Guard().ID, p[0])
}

func TestOneExploratoryCircuitPerGuard(t *testing.T) {
	m := start(t, network(1000))
	for i, u := range exploratory(t, m, 5) {
		if u.state == usableOnCompletion || u.Guard().ID != sample(m)[3+i] {
			t.Fatalf("circuit %d: not the next guard of the sample", i)
		}
	}
}

// exploratory makes all primary guards fail while the network is up, and
// returns n circuits through the next guards.
func exploratory(t *testing.T, m *Manager, n int) []*Use {
	t.Helper()
	m.online = epoch
	fail(t, m, len(m.cur.primary), epoch)
	var us []*Use
	for range n {
		us = append(us, pick(t, m, epoch))
	}
	return us
}

// confirmAll confirms sampled guards without touching the primary list, as if
// they had been used in an earlier run.
func confirmNext(m *Manager, from, n int) {
	for _, g := range m.cur.sample[from : from+n] {
		g.confirmedAt = epoch
		m.cur.confirmed = append(m.cur.confirmed, g)
	}
}

func TestWaitingIsBlockedByABetterCircuit(t *testing.T) {
	m := start(t, network(1000))
	confirmNext(m, 0, 6)
	us := exploratory(t, m, 3)
	want(t, "guards", []ident.RelayID{us[0].Guard().ID, us[1].Guard().ID, us[2].Guard().ID}, sample(m)[3:6])

	want(t, "third", us[2].Succeeded(epoch.Add(time.Second)), Wait)
	want(t, "second", us[1].Succeeded(epoch.Add(2*time.Second)), Wait)
	next := m.Tick(epoch.Add(2 * time.Second))
	want(t, "next tick", next, epoch.Add(15*time.Second+1))
	want(t, "undecided at 15 s", us[1].Decision(), Wait)
	m.Tick(next)
	want(t, "second, when the first was given its time", us[1].Decision(), UseNow)
	want(t, "third, a better one is complete", us[2].Decision(), Wait)
	// The first one comes at last: it is better than the second.
	want(t, "first", us[0].Succeeded(epoch.Add(20*time.Second)), UseNow)
	// The better circuits end: the third is usable after all.
	us[0].Closed(epoch.Add(30*time.Second), true)
	us[1].Closed(epoch.Add(31*time.Second), false)
	want(t, "third, when the better ones ended", us[2].Decision(), UseNow)
	select {
	case <-us[2].Decided():
	default:
		t.Fatal("not told")
	}
}

func TestWaitingEndsWhenTheBetterFails(t *testing.T) {
	m := start(t, network(1000))
	confirmNext(m, 0, 6)
	us := exploratory(t, m, 2)
	want(t, "second", us[1].Succeeded(epoch), Wait)
	us[0].Failed(epoch.Add(time.Second), Beyond)
	want(t, "second, when the first failed", us[1].Decision(), UseNow)
	if us[0].g.reach == no || us[0].g.pending != 0 {
		t.Fatal("a failure beyond the guard is not the guard's")
	}
}

func TestWaitingTimesOut(t *testing.T) {
	m := start(t, network(1000))
	confirmNext(m, 0, 6)
	us := exploratory(t, m, 2)
	want(t, "second", us[1].Succeeded(epoch), Wait)
	m.cur.primary[0].reach = maybe // now it never becomes usable
	m.Tick(epoch.Add(600 * time.Second))
	want(t, "at ten minutes", us[1].Decision(), Wait)
	m.Tick(epoch.Add(600*time.Second + 1))
	want(t, "after ten minutes", us[1].Decision(), Discard)
	<-us[1].Decided()
}

func TestWaitingAsLongAsAPrimaryMayWork(t *testing.T) {
	m := start(t, network(1000))
	confirmNext(m, 0, 6)
	us := exploratory(t, m, 1)
	at := epoch.Add(10 * time.Minute) // the primary guards are due for a retry
	retry := pick(t, m, at)
	if retry.state != usableOnCompletion {
		t.Fatal("the primary guard was not retried")
	}
	want(t, "while a primary guard may work", us[0].Succeeded(at), Wait)
	retry.Failed(at, Unreachable)
	fail(t, m, 2, at)
	want(t, "when all primary guards are down again", us[0].Decision(), UseNow)
}

func TestRestrictionsOfTheWaiting(t *testing.T) {
	m := start(t, network(1000))
	confirmNext(m, 0, 6)
	m.online = epoch
	fail(t, m, 3, epoch)
	better := pick(t, m, epoch)
	bad := better.Guard().ID
	u := pickFor(t, m, Request{Allow: func(c Candidate) bool { return c.ID != bad }}, epoch)
	want(t, "a circuit that the better guard could not serve", u.Succeeded(epoch), UseNow)
}

// TestPrimaryThatThePathForbids: a primary guard that works is no reason to wait
// when the path cannot use it, such as a second leg's the first leg's guard.
func TestPrimaryThatThePathForbids(t *testing.T) {
	m := start(t, network(1000))
	confirmNext(m, 0, 6)
	fail(t, m, 2, epoch)
	up := pick(t, m, epoch)
	want(t, "the last primary guard", up.Succeeded(epoch), UseNow)
	not := Request{Allow: func(c Candidate) bool { return c.ID != up.Guard().ID }}
	u := pickFor(t, m, not, epoch)
	want(t, "guard", u.Guard().ID, sample(m)[3])
	want(t, "a circuit that no primary guard could serve", u.Succeeded(epoch), UseNow)
	// As soon as another one is worth trying, it is waited for again.
	at := epoch.Add(10 * time.Minute)
	u = pickFor(t, m, not, epoch)
	want(t, "when a primary guard may work again", u.Succeeded(at), Wait)
}

// TestWorkingGuardTakesSeveral: circuits that are built at the same time go
// through one guard that works, and none of them waits for another.
func TestWorkingGuardTakesSeveral(t *testing.T) {
	m := start(t, network(1000))
	confirmNext(m, 0, 6)
	want(t, "the first that works", exploratory(t, m, 1)[0].Succeeded(epoch), UseNow)
	var us []*Use
	for range 8 {
		us = append(us, pick(t, m, epoch))
	}
	for _, u := range us {
		want(t, "guard", u.Guard().ID, sample(m)[3])
		want(t, "decision", u.Succeeded(epoch), UseNow)
	}
}

// TestCircuitOfAGuardThatWentDownBlocksNone: it may be complete still, when
// nothing has been heard of its end.
func TestCircuitOfAGuardThatWentDownBlocksNone(t *testing.T) {
	m := start(t, network(1000))
	confirmNext(m, 0, 6)
	us := exploratory(t, m, 2)
	want(t, "first", us[0].Succeeded(epoch), UseNow)
	want(t, "second", us[1].Succeeded(epoch), Wait)
	u := pick(t, m, epoch)
	want(t, "guard", u.Guard().ID, us[0].Guard().ID)
	u.Failed(epoch, Unreachable)
	want(t, "second, when the first's guard is down", us[1].Decision(), UseNow)
}

func TestSuccessAfterSilenceRetriesPrimaries(t *testing.T) {
	for _, v := range []struct {
		silence time.Duration
		forgive bool
	}{{10 * time.Minute, false}, {10*time.Minute + 1, true}} {
		m := start(t, network(1000))
		confirmNext(m, 0, 6)
		us := exploratory(t, m, 1)
		at := epoch.Add(9 * time.Minute) // before the regular retry
		m.online = at.Add(-v.silence)
		d := us[0].Succeeded(at)
		if v.forgive {
			want(t, "decision", d, Wait)
			if m.cur.primary[0].reach != maybe || m.cur.primary[0].failingSince.IsZero() {
				t.Fatal("the primary guards deserve another chance, with their past remembered")
			}
		} else {
			want(t, "decision", d, UseNow)
		}
	}
}

func TestFirstSuccessEver(t *testing.T) {
	m := start(t, network(1000))
	confirmNext(m, 0, 6)
	us := exploratory(t, m, 1)
	m.online = time.Time{}
	want(t, "decision", us[0].Succeeded(epoch), Wait)
	fail(t, m, 3, epoch)
	want(t, "decision when the primary guards failed twice", us[0].Decision(), UseNow)
}

func TestConfirmationMayMakePrimary(t *testing.T) {
	m := start(t, network(1000))
	p := primaries(m)
	us := exploratory(t, m, 1)
	want(t, "decision", us[0].Succeeded(epoch), UseNow)
	want(t, "primary guards", primaries(m), []ident.RelayID{p[0], p[1], us[0].Guard().ID})
	want(t, "confirmed", len(m.cur.confirmed), 1)
}

func TestEveryGuardDown(t *testing.T) {
	m := start(t, network(1000))
	p := primaries(m)
	now := epoch
	for range 60 {
		fail(t, m, 1, now)
		now = now.Add(time.Second)
	}
	want(t, "sample", len(m.cur.sample), 60)
	u := pick(t, m, now)
	want(t, "after all failed, begin again", u.Guard().ID, p[0])
}

func TestPendingGuardIsTriedAgainWhenNoneIsLeft(t *testing.T) {
	m := start(t, network(4))
	us := exploratory(t, m, 2)
	want(t, "guard", us[1].Guard().ID, us[0].Guard().ID)
	want(t, "circuits being tried", us[0].g.pending, 2)
	us[0].Cancelled(epoch)
	us[0].Cancelled(epoch)
	want(t, "circuits being tried", us[1].g.pending, 1)
}

func TestRestrictions(t *testing.T) {
	m := start(t, network(1000))
	p := primaries(m)
	not := func(bad ...ident.RelayID) Request {
		return Request{Allow: func(c Candidate) bool { return !slices.Contains(bad, c.ID) }}
	}
	want(t, "guard", pickFor(t, m, not(p[0]), epoch).Guard().ID, p[1])
	// Two for directory requests, because the forbidden one counts.
	r := not(p[0])
	r.Purpose = Directory1Hop
	seen := map[ident.RelayID]bool{}
	for range 200 {
		seen[pickFor(t, m, r, epoch).Guard().ID] = true
	}
	if len(seen) != 2 || seen[p[0]] {
		t.Fatalf("%d guards", len(seen))
	}
	u := pickFor(t, m, not(p...), epoch)
	if u.state == usableOnCompletion || u.Guard().ID != sample(m)[3] {
		t.Fatal("the first guard that fits")
	}
	_, err := m.Pick(Request{Allow: func(Candidate) bool { return false }}, epoch)
	if err == nil || len(m.uses) == 0 {
		t.Fatal("a path that forbids every guard")
	}
	t.Log(err)
}

func TestMissingMicrodescriptors(t *testing.T) {
	d := network(1000)
	m := start(t, d)
	first := primaries(m)[0]
	bare := d.without(epoch)
	for i := range bare.relays {
		bare.relays[i].Complete = bare.relays[i].ID != first
	}
	m.Update(bare, epoch)
	if _, err := m.Pick(Request{}, epoch); !fault.Is(err, fault.Directory) {
		t.Fatalf("traffic through another guard, or a strange error: %v", err)
	}
	if !m.Lacks(epoch) {
		t.Error("nobody asks for the missing one")
	}
	seen := map[ident.RelayID]bool{}
	for range 100 {
		u := pickFor(t, m, Request{Purpose: Directory1Hop}, epoch)
		seen[u.Guard().ID] = true
	}
	if !seen[first] {
		t.Fatal("directory requests need no microdescriptor")
	}
	m.Update(d, epoch)
	want(t, "guard", pick(t, m, epoch).Guard().ID, first)
	if m.Lacks(epoch) {
		t.Error("one is missing that is there")
	}
}

// TestMissingNext: C tor's clients build no circuit while a descriptor is missing of the guards that they use, or of the next one,
// of those that are not known to be down. Another program may go on without the next one's.
func TestMissingNext(t *testing.T) {
	d := network(1000)
	for next, want := range map[bool][]bool{true: {true, true, false}, false: {true, false, false}} {
		m := start(t, d)
		m.cfg.NextToo = next
		waits := func(what string, n int, now time.Time, want bool) {
			t.Helper()
			bare := d.without(epoch)
			for i := range bare.relays {
				bare.relays[i].Complete = bare.relays[i].ID != primaries(m)[n]
			}
			m.Update(bare, now)
			u, err := m.Pick(Request{}, now)
			if err == nil {
				u.Cancelled(now)
			}
			if (err != nil) != want || m.Lacks(now) != want {
				t.Errorf("next %v, %s, primary guard %d has no descriptor: %v, %v", next, what, n, m.Lacks(now), err)
			}
			m.Update(d, now)
		}
		for n, w := range want {
			waits("all are up", n, epoch, w)
		}
		fail(t, m, 1, epoch)
		waits("the first is down", 0, epoch, false)
		waits("the first is down", 1, epoch, next)
		waits("the first is down", 2, epoch, next)
		waits("the first may be up again", 2, epoch.Add(10*time.Minute), false)
	}
}

func TestNoConsensusNoGuard(t *testing.T) {
	m, err := New(config(1), &MemStore{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Pick(Request{}, epoch); !fault.Is(err, fault.Directory) {
		t.Fatal(err)
	}
	m.Update(network(0), epoch)
	if _, err := m.Pick(Request{}, epoch); !fault.Is(err, fault.Directory) {
		t.Fatal(err)
	}
}

func TestLateReportsDoNothing(t *testing.T) {
	m := start(t, network(100))
	u := pick(t, m, epoch)
	u.Cancelled(epoch)
	u.Failed(epoch, Unreachable)
	if u.g.reach != maybe || u.Succeeded(epoch) != Discard || u.g.isConfirmed() {
		t.Fatal("a cancelled circuit said something about its guard")
	}
	u.Closed(epoch, true)
	u = pick(t, m, epoch)
	u.Succeeded(epoch)
	want(t, "twice", u.Succeeded(epoch), UseNow)
	want(t, "confirmed", len(m.cur.confirmed), 1)
}

// TestForbiddenGuardCounts: a guard that the path forbids is one of those that are used, so that a peer which
// chooses what paths forbid does not bring a client to more of them.
func TestForbiddenGuardCounts(t *testing.T) {
	m := start(t, network(1000))
	m.p.UsePrimary, m.p.UsePrimaryDir = 2, 2
	p := primaries(m)
	for _, purpose := range []Purpose{Traffic, Directory1Hop} {
		seen := map[ident.RelayID]bool{}
		for range 200 {
			r := Request{Purpose: purpose, Allow: func(c Candidate) bool { return c.ID != p[0] }}
			seen[pickFor(t, m, r, epoch).Guard().ID] = true
		}
		if len(seen) != 1 || !seen[p[1]] {
			t.Errorf("purpose %v: %d guards", purpose, len(seen))
		}
	}
}

// TestDropWithoutDirectory: that the guards of an earlier run are gone is saved, too.
func TestDropWithoutDirectory(t *testing.T) {
	store := &MemStore{}
	first, err := New(config(1), store, epoch)
	if err != nil {
		t.Fatal(err)
	}
	first.Update(network(200), epoch)
	if err := first.Save(); err != nil {
		t.Fatal(err)
	}
	m, err := New(config(1), store, epoch)
	if err != nil || len(sample(m)) == 0 {
		t.Fatal(err)
	}
	m.Drop(epoch)
	if got := sample(m); len(got) != 0 {
		t.Errorf("%d guards are left", len(got))
	}
	select {
	case <-m.Changed():
	default:
		t.Error("nothing is to be saved")
	}
}

// TestDrop: after Drop there are other guards, which outlive a restart.
func TestDrop(t *testing.T) {
	m := start(t, network(200))
	before := sample(m)
	u := pick(t, m, epoch)
	m.Drop(epoch)
	after := sample(m)
	if len(after) != len(before) || slices.Equal(after, before) {
		t.Errorf("%d guards, before %d", len(after), len(before))
	}
	u.Succeeded(epoch) // a circuit over an old one goes on
	select {
	case <-m.Changed():
	default:
		t.Error("nothing is to be saved")
	}
}

// TestOutdated: guards that lack what is asked for are passed over like unreachable ones, for the next in the list, unless
// few are left.
func TestOutdated(t *testing.T) {
	m := start(t, network(1000))
	seen := func(old ...ident.RelayID) map[ident.RelayID]bool {
		t.Helper()
		out := map[ident.RelayID]bool{}
		for range 200 {
			u := pickFor(t, m, Request{Purpose: Directory1Hop, Outdated: func(c Candidate) bool { return slices.Contains(old, c.ID) }}, epoch)
			out[u.Guard().ID] = true
			u.Cancelled(epoch)
		}
		return out
	}
	p, all := primaries(m), sample(m)
	m.p.UsePrimaryDir = 2 // of three
	if got := seen(p[0]); len(got) != 2 || !got[p[1]] || !got[p[2]] {
		t.Errorf("%v, not the other primary guards", got)
	}
	if got := seen(p...); len(got) != 1 || !got[all[3]] {
		t.Errorf("%v, not the next one", got)
	}
	every := Request{Purpose: Directory1Hop, Outdated: func(Candidate) bool { return true }}
	if _, err := m.Pick(every, epoch); !fault.Is(err, fault.Directory) || !strings.Contains(err.Error(), "newest consensus") {
		t.Errorf("all are outdated: %v", err)
	}
	for n := len(all); n > enoughUsable; n-- {
		m.cur.find(all[n-1].RSA).reach, m.cur.find(all[n-1].RSA).lastTried = no, epoch
	}
	if got := seen(p[0]); len(got) != 2 || got[p[0]] {
		t.Errorf("%v, though just as many are left as must be", got)
	}
	for n := enoughUsable; n >= enoughUsable; n-- {
		m.cur.find(all[n-1].RSA).reach, m.cur.find(all[n-1].RSA).lastTried = no, epoch
	}
	if got := seen(p[0]); len(got) != 2 || !got[p[0]] {
		t.Errorf("%v, though few are left", got)
	}
}
