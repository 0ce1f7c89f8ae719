package hsservice

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// The first byte of a rendezvous point's identity says, in these tests, what it does.
const (
	pointMeets   = 7  // an honest client's: the circuit is there after a while
	pointSilent  = 8  // it is in the consensus, and never answers
	pointStrange = 9  // it is not in the consensus, and never answers
	pointBusy    = 10 // an attacker's that does answer
)

// world is a network in which circuits to rendezvous points take time.
type world struct {
	nowhere
	mu      sync.Mutex
	reached map[ident.RSAID]time.Time // the honest clients' points
}

// The time that a circuit to a rendezvous point takes.
const buildTime = 300 * time.Millisecond

func (w *world) To(ctx context.Context, t linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	if w.wasReached(t.RSA) {
		return nil, 0, errNoCircuits // the second try, which there is because the test has no real circuits
	}
	wait := time.NewTimer(buildTime)
	defer wait.Stop()
	if t.RSA[0] == pointSilent || t.RSA[0] == pointStrange {
		wait.Stop()
	}
	select {
	case <-wait.C:
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.RSA[0] == pointMeets && w.reached[t.RSA].IsZero() {
		w.reached[t.RSA] = time.Now()
	}
	return nil, 0, errNoCircuits
}

var errNoCircuits = fault.New(fault.Network, "the test has no circuits")

// wasReached reports whether a point was reached. Such a try has no timer of no time at all:
// under the race detector, Go's runtime can crash when several of a bubble's goroutines
// find theirs over.
func (w *world) wasReached(id ident.RSAID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.reached[id].IsZero()
}

func (*world) Knows(t *linkspec.Target) bool { return t.RSA[0] != pointStrange }

// flooder makes introductions at little cost: it encrypts all with one key.
type flooder struct {
	hs     *handshake.HSClientState
	header []byte
	kind   byte
	n      uint64
	proof  func(*cell.PoW) // fills in a proof of work; nil: there is none
}

func newFlooder(t testing.TB, p *point, kind byte) *flooder {
	t.Helper()
	hs, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: p.enc.Public(), Auth: p.id(), Subcredential: [32]byte{2}})
	if err != nil {
		t.Fatal(err)
	}
	return &flooder{hs: hs, header: (&cell.Introduce{AuthKey: p.id()}).AppendHeader(nil), kind: kind}
}

// introduction returns another introduction, and the identity of its rendezvous point.
func (f *flooder) introduction() ([]byte, ident.RSAID) {
	f.n++
	id := ident.RSAID{f.kind}
	binary.BigEndian.PutUint64(id[1:], f.n)
	_, _ = rand.Read(id[9:])
	t := linkspec.Target{RelayID: ident.RelayID{RSA: id, Ed: ident.Ed25519ID{2}}, Addrs: []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:9001")}}
	plain := cell.IntroducePlaintext{Cookie: [cell.CookieLen]byte(id[:]), Onion: ident.X25519Key{9}, Specs: linkspec.Append(nil, t.Specs())}
	if f.proof != nil {
		p := cell.PoW{Nonce: [16]byte(id[:])}
		f.proof(&p)
		plain.Exts = []cell.Ext{p.Ext()}
	}
	return append(f.header[:len(f.header):len(f.header)], f.hs.Introduce(f.header, append(plain.Append(nil), make([]byte, 200)...))...), id
}

// junk returns what cannot be decrypted.
func (f *flooder) junk() []byte {
	b, _ := f.introduction()
	b[len(b)-1] ^= 1
	return b
}

// TestManyClientsAtOnce: a service meets all of 1,000 clients that come at one moment,
// as fast as it can build circuits.
func TestManyClientsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 1000
		w := &world{reached: map[ident.RSAID]time.Time{}}
		s, p := hosted(t, w)
		began := time.Now()
		f := newFlooder(t, p, pointMeets)
		for range clients {
			body, _ := f.introduction()
			if err := s.queueIntroduce2(p, nil, body); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep((clients/maxRendezvous + 2) * buildTime)
		s.Close()
		if n := len(w.reached); n != clients {
			t.Errorf("%d of %d are met within %v", n, clients, time.Since(began))
		}
	})
}

// TestIntroductionsUnderFlood: attackers send a service 10,000 introductions a second,
// and yet it meets the clients that come through introduction points of which the
// attackers make no use. It meets a part of those that come through the others if what
// the attackers send is worth nothing.
func TestIntroductionsUnderFlood(t *testing.T) {
	long(t)
	for name, c := range map[string]struct {
		points int  // through which the flood comes, of three
		kind   byte // of the attackers' rendezvous points; 0: what they send cannot be decrypted
	}{
		"silent points, through one":      {1, pointSilent},
		"silent points, through two":      {2, pointSilent},
		"silent points, through all":      {3, pointSilent},
		"points that answer, through one": {1, pointBusy},
		"points that answer, through all": {3, pointBusy},
		"strangers, through all":          {3, pointStrange},
		"junk, through one":               {1, 0},
		"junk, through all":               {3, 0},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { flood(t, c.points, c.kind) }) })
	}
}

func flood(t *testing.T, through int, kind byte) {
	const seconds, attacks, honest = 2, 10000, 50 // a second
	const tick = 10 * time.Millisecond
	w := &world{reached: map[ident.RSAID]time.Time{}}
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Key: k, Network: w})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.mu.Lock()
	s.subcreds = [][32]byte{{1}, {2}}
	s.mu.Unlock()
	var points [3]*point
	var attackers, clients [3]*flooder
	for j := range points {
		if points[j], err = newPoint(time.Now(), nil); err != nil {
			t.Fatal(err)
		}
		attackers[j], clients[j] = newFlooder(t, points[j], kind), newFlooder(t, points[j], pointMeets)
	}
	life := points[0].introsLeft
	send := func(j int, body []byte) {
		if err := s.queueIntroduce2(points[j], nil, body); err != nil {
			t.Fatal(err)
		}
	}
	asked := [3]map[ident.RSAID]time.Time{{}, {}, {}}
	perTick, clientAt := attacks/int(time.Second/tick), int(time.Second/tick)/honest
	for i := range int(seconds * time.Second / tick) {
		for n := range perTick {
			j := n % through
			if body, _ := attackers[j].introduction(); kind != 0 {
				send(j, body)
			} else {
				send(j, attackers[j].junk())
			}
			if i%clientAt == 0 && n == i%perTick {
				j := i / clientAt % len(points)
				body, id := clients[j].introduction()
				asked[j][id] = time.Now()
				send(j, body)
			}
		}
		time.Sleep(tick) // virtual
	}
	time.Sleep(5 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for j, all := range asked {
		met := 0
		for id, since := range all {
			if r := w.reached[id]; !r.IsZero() && r.Sub(since) <= 5*time.Second {
				met++
			}
		}
		t.Logf("point %d: %d of %d clients are met within 5 s", j, met, len(all))
		switch {
		case j >= through && met < len(all):
			t.Errorf("the flood keeps clients of a point out through which it does not come")
		case (kind == 0 || kind == pointStrange) && 3*met < len(all):
			t.Errorf("introductions that can be told from true ones keep clients out")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if used := life - points[0].introsLeft; used > seconds*1000 {
		t.Errorf("%d introductions count against the life of a point", used)
	}
	if n := len(s.waiting.lanes); n != 0 && s.waiting.n > maxWaiting {
		t.Errorf("%d introductions wait", s.waiting.n)
	}
}
