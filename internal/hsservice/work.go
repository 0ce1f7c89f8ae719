package hsservice

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// A service that asks for proofs of work (hspow-spec) first opens all introductions, and
// then answers them in the order of the efforts that their clients have proved. The
// descriptor suggests an effort, which grows while clients that made it have to wait.

// PoW is how a service that asks for proofs of work answers its clients.
type PoW struct {
	Rate  int // rendezvous a second
	Burst int // rendezvous at once
}

// The numbers of C tor.
const (
	DefaultPoWRate  = 250
	DefaultPoWBurst = 2500
)

func (p *PoW) check() error {
	if p != nil && (p.Rate < 1 || p.Burst < p.Rate || p.Burst > 1<<31-1) {
		return fault.New(fault.Config, "onion service: proofs of work, %d rendezvous a second, bursts of %d: the burst must not be less than the rate, and the rate not less than 1", p.Rate, p.Burst)
	}
	return nil
}

const (
	// maxOpened is how many introductions may wait for their turn: as many as are answered,
	// at DefaultPoWRate, before they have waited for too long. They are 4 MB.
	maxOpened = 4096
	// minQueue is how many of them do not count as a queue, at low rates.
	minQueue = 8
)

// work orders introductions by their proofs of work.
type work struct {
	schedule *hspow.Schedule
	room     *account.Account // of the memory of proofs
	queue    queue
	log      *slog.Logger
	// proves is hspow.Check.
	checkProof func(blinded, seed *[32]byte, p *cell.PoW) error

	verified atomic.Uint64
	refused  [refusals]atomic.Uint64

	mu      sync.Mutex // guards what follows; no other mutex of a service is taken under it
	limits  *PoW       // nil: the service asks for no proofs
	pace    *rate.Limiter
	seeds   []hspow.Seed // that clients may have, the present one first
	stale   time.Time    // when to look for other ones
	spent   map[int64]*hspow.Spent
	control hspow.Control
	told    uint32 // the suggested effort that the log has
}

// refusal is a reason to refuse a proof of work.
type refusal int

// The reasons, in the order of the checks.
const (
	refusedForm refusal = iota
	refusedSeed
	refusedReplay
	refusedEffort
	refusedSolution
	refusals
)

// refusalNames are the reasons in metrics and in the status.
var refusalNames = [refusals]string{"malformed", "seed", "replayed", "effort", "solution"}

func newWork(secret [32]byte, memory *account.Memory, c *counts, ready chan struct{}, log *slog.Logger) *work {
	w := &work{
		schedule: hspow.NewSchedule(secret), log: log, checkProof: hspow.Check,
		room: memory.Address(netip.Addr{}), pace: rate.NewLimiter(rate.Inf, 0), spent: map[int64]*hspow.Spent{},
	}
	w.queue.most, w.queue.counts, w.queue.ready = maxOpened, c, ready
	w.queue.onDrop = func(in introduction) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.control.Lost(in.effort)
	}
	return w
}

// set takes over new limits.
func (w *work) set(p *PoW) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case p == nil:
		w.control = hspow.Control{Every: w.control.Every}
		w.pace = rate.NewLimiter(rate.Inf, 0)
	case w.limits == nil || *w.limits != *p:
		w.pace = rate.NewLimiter(rate.Limit(p.Rate), p.Burst)
	}
	w.limits = p
}

// close gives back the memory.
func (w *work) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spent == nil {
		return
	}
	for _, sp := range w.spent {
		sp.Close()
	}
	w.spent = nil
	w.room.Close()
}

// asksWork reports whether the service asks for proofs of work.
func (s *Service) asksWork() bool { return s.live.Load().PoW != nil }

// add has an introduction wait that was opened.
func (w *work) add(in introduction) {
	w.noteEffort(in.effort)
	w.queue.add(in)
}

func (w *work) noteEffort(effort uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.control.Came(effort)
}

// take takes the introduction with the greatest effort, if it may be answered now.
func (w *work) take(now time.Time, after func(*point, uint32) time.Duration) (in introduction, wait time.Duration, ok bool) {
	in, wait, ok = w.queue.take(now, func(p *point, effort uint32) time.Duration {
		return max(w.paused(now), after(p, effort))
	})
	if !ok {
		return in, wait, false
	}
	n, greatest, _ := w.queue.state()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pace.AllowN(now, 1)
	w.control.Served(!w.fewLocked(n, greatest))
	return in, 0, true
}

// paused is how long no rendezvous may begin.
func (w *work) paused(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limits == nil {
		return 0
	}
	if missing := 1 - w.pace.TokensAt(now); missing > 0 {
		return time.Duration(missing/float64(w.pace.Limit())*float64(time.Second)) + time.Millisecond
	}
	return 0
}

// fewLocked reports whether waiting introductions do not count as a queue: there are fewer than
// are answered within a quarter of a second, or all of them have less effort than is
// suggested. Such ones cost nothing, and must not hold up the effort that is asked of others.
func (w *work) fewLocked(n int, greatest uint32) bool {
	least := minQueue
	if w.limits != nil {
		least = max(minQueue, w.limits.Rate/4)
	}
	return n < least || greatest < w.suggestedLocked()
}

// suggested returns the effort that this host suggests.
func (w *work) suggested() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.suggestedLocked()
}

// suggestedLocked returns the suggested effort. It is greater than those that count for
// nothing with the seeds that the descriptors have.
func (w *work) suggestedLocked() uint32 {
	w.control.Above(w.floorLocked())
	return w.control.Suggested()
}

// floorLocked returns the greatest effort that counts for nothing with these seeds.
func (w *work) floorLocked() (floor uint32) {
	for number, sp := range w.spent {
		if len(w.seeds) > 0 && number >= w.seeds[0].Number {
			floor = max(floor, sp.Floor())
		}
	}
	return floor
}

// cheap reports whether an effort is less than what the service suggests.
func (w *work) cheap(effort uint32) bool { return effort < w.suggested() }

// tend changes the seed and the suggested effort when their time has come. It returns how
// long it may rest.
func (w *work) tend(now time.Time) (wait time.Duration) {
	n, greatest, _ := w.queue.state()
	top := int64(greatest)
	if n == 0 {
		top = -1
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limits == nil {
		if len(w.spent) > 0 {
			w.knownLocked(now) // forgets proofs
			return w.stale.Sub(now)
		}
		return longest
	}
	w.knownLocked(now)
	w.suggestedLocked() // so that Update knows the present floor
	w.control.Update(now, top, w.fewLocked(n, greatest))
	if effort := w.suggestedLocked(); effort != w.told {
		w.told = effort
		w.log.Info("onion service suggests another effort to its clients", "effort", effort)
	}
	return min(w.stale.Sub(now), w.control.Next().Sub(now))
}

// knownLocked returns the seeds that clients may have. With a seed, the proofs for it are
// forgotten.
func (w *work) knownLocked(now time.Time) []hspow.Seed {
	if len(w.seeds) > 0 && now.Before(w.stale) && !now.Before(w.seeds[0].From) {
		return w.seeds
	}
	w.seeds = w.schedule.Known(now)
	if w.stale = w.seeds[0].Until.Add(-hspow.SeedSkew); !now.Before(w.stale) {
		w.stale = w.seeds[0].Until
	}
	for number, sp := range w.spent {
		if number < w.seeds[0].Number-1 {
			sp.Close()
			delete(w.spent, number)
		}
	}
	return w.seeds
}

// offer returns what a descriptor says of proofs of work: what it said before, as long as
// that is nearly true, so that not each change of the effort makes a new descriptor, unless
// the effort that it suggested counts for nothing by now. The seed may also be the next one:
// another host of the service may have published it.
func (w *work) offer(before *netdoc.HSPoW, effort uint32, now time.Time) *netdoc.HSPoW {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limits == nil {
		return nil
	}
	known := w.knownLocked(now)
	seed := known[0]
	for _, s := range known {
		if before != nil && s.Number >= seed.Number && before.Seed == s.Value && near(before.Effort, effort) && (before.Effort == 0 || before.Effort > w.floorLocked()) {
			return before
		}
	}
	return &netdoc.HSPoW{Seed: seed.Value, Effort: effort, Expires: seed.Until}
}

// near reports whether two efforts differ by 15 percent or less.
func near(before, now uint32) bool {
	b, n := uint64(before), uint64(now)
	return 100*n >= 85*b && 100*n <= 115*b
}

// offerText is what contentOf needs of an offer.
func offerText(p *netdoc.HSPoW) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf(" %x %d", p.Seed, p.Effort)
}

// effortOf returns the effort that an introduction's proof of work is worth. What costs little
// is checked first, and a proof that would be dropped anyway is not checked.
func (w *work) effortOf(exts []cell.Ext, blinded *ident.Ed25519ID, now time.Time, opening *rate.Limiter) (effort uint32, err error) {
	body, ok := cell.FindExt(exts, cell.ExtPoW)
	if !ok {
		return 0, nil
	}
	p, err := cell.ParsePoW(body)
	if err != nil {
		return 0, w.refuse(refusedForm, err)
	}
	if p.Effort == 0 {
		return 0, nil
	}
	if n, _, least := w.queue.state(); n >= maxOpened && p.Effort < least {
		return 0, errFull
	}
	seed, spent, err := w.find(&p, blinded, now)
	if err != nil || spent == nil {
		return 0, err
	}
	err = w.checkProof((*[32]byte)(blinded), &seed.Value, &p)
	if errors.Is(err, hspow.ErrEffort) {
		return 0, w.refuse(refusedEffort, err)
	}
	opening.ReserveN(now, 1) // the next one waits for longer
	if err != nil {
		return 0, w.refuse(refusedSolution, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spent[seed.Number] != spent {
		return 0, w.refuse(refusedSeed, hspow.ErrSeed) // the seed's time ended meanwhile
	}
	w.verified.Add(1)
	spent.Add(&p.Nonce, p.Effort)
	return p.Effort, nil
}

// find returns the seed of a proof, and the memory of the proofs for it: nil if the proof is
// worth nothing.
func (w *work) find(p *cell.PoW, blinded *ident.Ed25519ID, now time.Time) (hspow.Seed, *hspow.Spent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, seed := range w.knownLocked(now) {
		if [4]byte(seed.Value[:4]) != p.SeedHead || blinded.IsZero() {
			continue
		}
		sp := w.spent[seed.Number]
		if sp == nil {
			sp = hspow.NewSpent(w.room)
			w.spent[seed.Number] = sp
		}
		switch {
		case sp.Has(&p.Nonce):
			return seed, nil, w.refuse(refusedReplay, errReplayed)
		case sp.Worthless(p.Effort):
			return seed, nil, nil
		}
		return seed, sp, nil
	}
	return hspow.Seed{}, nil, w.refuse(refusedSeed, hspow.ErrSeed)
}

func (w *work) refuse(why refusal, err error) error {
	w.refused[why].Add(1)
	return fault.New(fault.Protocol, "the client's proof of work is refused: %w", err)
}

var (
	errReplayed = errors.New("it was there before")
	errFull     = fault.New(fault.Resource, "introductions with greater efforts wait already")
)
