package authority

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// Tests have two budgets. Known relays are those that answered lately or that the
// consensus lists. All others are strangers: anybody can upload descriptors of
// relays that never answer, whose tests take the longest time. So strangers'
// tests use no slot of known relays, and strangers take turns by the network that
// they come from.
const (
	// testEvery is how often a port is tested (C tor's
	// REACHABILITY_TEST_CYCLE_PERIOD).
	testEvery = 1280 * time.Second
	// knownAtOnce is the least number of slots for known relays; see knownSlots.
	knownAtOnce = 64
	// strangersAtOnce is the number of slots for strangers; one network gets a
	// quarter of them at most.
	strangersAtOnce = 64
	// maxBackoff bounds how often the time between tests doubles for a stranger
	// that never answers: after that, it is tested every three hours.
	maxBackoff = 3
)

// knownSlots returns how many tests of n known ports may run at the same time. It
// is enough to test every port within a cycle even if none of them answers, so
// that each test takes its full time.
func knownSlots(n int) int {
	return max(knownAtOnce, int(int64(n)*int64(testLimit)/int64(testEvery))+1)
}

// slots counts the running tests of one budget.
type slots struct {
	taken int
	from  map[netip.Prefix]int // by the network from which the descriptor was uploaded
}

func (s *slots) enter(net netip.Prefix) {
	if s.from == nil {
		s.from = map[netip.Prefix]int{}
	}
	s.taken++
	s.from[net]++
}

func (s *slots) leave(net netip.Prefix) {
	s.taken--
	if s.from[net]--; s.from[net] == 0 {
		delete(s.from, net)
	}
}

// tests is the state of the tests of all relays.
type tests struct {
	known, strangers slots
	hold             time.Time // no test begins before then: files or memory were short
	// When a network or an address had its last turn; see turn.
	turns map[netip.Prefix]uint64
	turn  uint64
}

// maxTurns bounds the recorded turns; above it, all of them are forgotten.
const maxTurns = 4 * maxStrangers

// took records that a stranger had its turn, and updates the waiting tests in
// list.
func (s *tests) took(r *relay, list []*portTest) {
	if s.turns == nil || len(s.turns) > maxTurns {
		s.turns = map[netip.Prefix]uint64{}
	}
	s.turn++
	s.turns[r.source], s.turns[r.network] = s.turn, s.turn
	for _, t := range list {
		if t.of.network == r.network {
			t.netTurn = s.turn
		}
		if t.of.source == r.source {
			t.turn = s.turn
		}
	}
}

// dueLocked returns the tests that begin now. They have their slots.
func (a *Authority) dueLocked(now time.Time) []*portTest {
	s := &a.tests
	if now.Before(s.hold) && s.hold.Sub(now) <= testIdle {
		return nil
	}
	var known, strange []*portTest
	ports := 0
	for _, r := range a.relays.byRSA {
		is := a.knownLocked(r, now)
		for f := range families {
			addr, ok := a.port(r.desc, f)
			if !ok {
				continue
			}
			if is {
				ports++
			}
			p := &r.probes[f]
			if p.testing || now.Before(p.due(is)) {
				continue
			}
			t := &portTest{of: r, probe: p, addr: addr}
			if is {
				t.slots = &s.known
				known = append(known, t)
			} else {
				t.slots, t.netTurn, t.turn = &s.strangers, s.turns[r.network], s.turns[r.source]
				strange = append(strange, t)
			}
		}
	}
	begun := first(known, knownSlots(ports)-s.known.taken)
	for _, t := range begun {
		t.begin()
	}
	for range strangersAtOnce - s.strangers.taken {
		t := s.next(strange, a.cfg.Accept.AllowPrivateAddresses)
		if t == nil {
			break
		}
		t.begin()
		s.took(t.of, strange)
		begun = append(begun, t)
	}
	return begun
}

func (t *portTest) begin() {
	t.probe.testing = true
	t.slots.enter(t.of.network)
}

// port returns the ORPort of a family that this authority tests.
func (a *Authority) port(d *netdoc.RouterDesc, f family) (netip.AddrPort, bool) {
	if f == ipv4 {
		return netip.AddrPortFrom(d.Addr, d.ORPort), true
	}
	o, ok := orAddr6(d)
	return o, ok && a.cfg.Accept.IPv6
}

// due returns the time of the next test of the port.
func (p *probe) due(known bool) time.Time {
	if p.tried.IsZero() {
		return time.Time{}
	}
	wait := testEvery
	if !known && p.failed > 0 {
		wait <<= min(p.failed-1, maxBackoff)
	}
	return p.tried.Add(wait)
}

// first returns the n tests that matter most: of ports that answered the last
// test, and among these of the ports whose last test is longest ago.
func first(list []*portTest, n int) []*portTest {
	slices.SortFunc(list, func(x, y *portTest) int {
		return cmp.Or(cmp.Compare(min(x.probe.failed, 1), min(y.probe.failed, 1)), x.probe.tried.Compare(y.probe.tried))
	})
	return list[:max(0, min(n, len(list)))]
}

// next returns the stranger's test whose turn it is, or nil. It chooses the
// network that has waited longest, in it the address that has waited longest, and
// of that address the relay that was never tested or has waited longest. local
// says that all relays share a network.
func (s *tests) next(list []*portTest, local bool) *portTest {
	var best *portTest
	for _, t := range list {
		if t.probe.testing || !local && s.strangers.from[t.of.network] >= strangersAtOnce/4 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(t.netTurn, best.netTurn), cmp.Compare(t.turn, best.turn),
			t.probe.tried.Compare(best.probe.tried), t.of.since.Compare(best.of.since)) < 0 {
			best = t
		}
	}
	return best
}
