package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// madeLeg is a leg of a test.
type madeLeg struct {
	n    int
	once sync.Once
	done chan struct{}
	err  error
}

func (l *madeLeg) Done() <-chan struct{} { return l.done }
func (l *madeLeg) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}
func (l *madeLeg) Close() { l.fail(errUnused) }
func (l *madeLeg) fail(err error) {
	l.once.Do(func() { l.err = err; close(l.done) })
}

// fate is what becomes of a leg.
type fate struct {
	path  error         // that there is none
	build time.Duration // until it is built
	fails error         // then
	late  time.Duration // until it is late; zero: never
	link  time.Duration // until the exit answers; negative: never
	says  error         // then
}

// madeSet is the work on the legs of a test's set, in virtual time.
type madeSet struct {
	fates []fate
	begun time.Time
	tick  chan struct{}

	mu     sync.Mutex // guards what follows
	log    []string   // what happened, with the seconds
	chosen int
	paths  map[*path.Path]int
	legs   []*madeLeg
	joined []int
}

func (m *madeSet) note(what string, n int) {
	m.log = append(m.log, fmt.Sprintf("%v %s %d", time.Since(m.begun).Seconds(), what, n))
}

func (m *madeSet) choose(others []*path.Path) (*path.Path, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.chosen
	m.chosen++
	what := "launch"
	for _, p := range others {
		what += fmt.Sprintf(" beside %d", m.paths[p])
	}
	if err := m.fates[n].path; err != nil {
		m.note("no path for", n)
		return nil, err
	}
	m.note(what+":", n)
	p := &path.Path{Hops: make([]path.Hop, 3)}
	m.paths[p] = n
	return p, nil
}

func (m *madeSet) of(p *path.Path) (int, fate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.paths[p]
	return n, m.fates[n]
}

func (m *madeSet) build(ctx context.Context, p *path.Path, late func()) (builtLeg, error) {
	n, f := m.of(p)
	if f.late > 0 {
		time.AfterFunc(f.late, late)
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(f.build):
	}
	if f.fails != nil {
		return nil, f.fails
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &madeLeg{n: n, done: make(chan struct{})}
	m.legs = append(m.legs, l)
	return l, nil
}

func (m *madeSet) link(ctx context.Context, c builtLeg) error {
	l := c.(*madeLeg)
	m.mu.Lock()
	m.note("link", l.n)
	f := m.fates[l.n]
	m.mu.Unlock()
	var answer <-chan time.Time
	if f.link >= 0 {
		answer = time.After(f.link)
	}
	select {
	case <-ctx.Done():
		l.fail(context.Cause(ctx))
		return context.Cause(ctx)
	case <-l.done:
		return l.Err()
	case <-answer:
	}
	if f.says != nil {
		l.fail(f.says)
	}
	return f.says
}

func (m *madeSet) join(legs []builtLeg) (*OpenCircuit, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range legs {
		m.joined = append(m.joined, l.(*madeLeg).n)
	}
	return new(OpenCircuit), nil
}

func (m *madeSet) swept() <-chan struct{} { return m.tick }

// open returns the numbers of the legs that are open.
func (m *madeSet) open() (out []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.legs {
		if l.Err() == nil {
			out = append(out, l.n)
		}
	}
	slices.Sort(out)
	return out
}

var errFails = errors.New("the test says so")

// makeSet makes a set of two legs with at most five launches. after runs when it is made, with the seconds that this took.
func makeSet(t *testing.T, fates []fate, after func(m *madeSet, set *OpenCircuit, err error, took float64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		base, cancel := context.WithCancel(context.Background())
		m := &madeSet{fates: fates, begun: time.Now(), tick: make(chan struct{}, 1), paths: map[*path.Path]int{}}
		s := &setBuild{works: m, log: slog.New(slog.DiscardHandler), wg: &wg, base: base, launches: 5, idle: 10 * time.Minute}
		stop := make(chan struct{})
		wg.Go(func() { // a sweep every minute
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Minute):
					select {
					case m.tick <- struct{}{}:
					default:
					}
				}
			}
		})
		p, err := m.choose(nil)
		if err != nil {
			t.Fatal(err)
		}
		set, err := s.run(context.Background(), p, 2)
		took := time.Since(m.begun).Seconds()
		after(m, set, err, took)
		close(stop)
		cancel()
		wg.Wait()
	})
}

// TestSetBuild: what becomes of a set by what becomes of its legs.
func TestSetBuild(t *testing.T) {
	second := time.Second
	ok := fate{build: second, link: second}
	fails := fate{build: second, fails: errFails}
	for name, c := range map[string]struct {
		fates  []fate
		log    []string
		joined []int   // nil: there is no set
		took   float64 // seconds
		open   []int   // when it is made, or not
		err    error
	}{
		"each leg is linked when it is built": {[]fate{ok, {build: 5 * second, link: second}},
			[]string{"0 launch: 0", "0 launch beside 0: 1", "1 link 0", "5 link 1"}, []int{0, 1}, 6, []int{0, 1}, nil},
		"one that fails is replaced": {[]fate{ok, {build: 3 * second, fails: errFails}, ok},
			[]string{"0 launch: 0", "0 launch beside 0: 1", "1 link 0", "3 launch beside 0: 2", "4 link 2"}, []int{0, 2}, 5, []int{0, 2}, nil},
		"the first is replaced too": {[]fate{fails, {build: 2 * second}, ok},
			[]string{"0 launch: 0", "0 launch beside 0: 1", "1 launch beside 1: 2", "2 link 1", "2 link 2"}, []int{1, 2}, 3, []int{1, 2}, nil},
		"one that is late is replaced, and closed when it is built": {[]fate{ok, {build: 3 * second, late: 2 * second}, {build: 5 * second}},
			[]string{"0 launch: 0", "0 launch beside 0: 1", "1 link 0", "2 launch beside 0: 2", "7 link 2"}, []int{0, 2}, 7, []int{0, 2}, nil},
		"one is late when it is linked": {[]fate{ok, {build: 2 * second, late: 3 * second, link: 3 * second}},
			[]string{"0 launch: 0", "0 launch beside 0: 1", "1 link 0", "2 link 1"}, []int{0, 1}, 5, []int{0, 1}, nil},
		"one that the exit links too slowly is replaced": {[]fate{ok, {build: second, link: 3 * second, says: circuit.ErrLinkSlow}, ok},
			[]string{"0 launch: 0", "0 launch beside 0: 1", "1 link 0", "1 link 1", "4 launch beside 0: 2", "5 link 2"}, []int{0, 2}, 6, []int{0, 2}, nil},
		"there is no second path": {[]fate{ok, {path: errFails}, {path: errFails}, {path: errFails}, {path: errFails}},
			[]string{"0 launch: 0", "0 no path for 1", "0 no path for 2", "0 no path for 3", "0 no path for 4", "1 link 0"}, []int{0}, 2, []int{0}, nil},
		"the launches end before the first leg is linked": {[]fate{{build: 7 * second}, fails, fails, fails, fails},
			[]string{"0 launch: 0", "0 launch beside 0: 1", "1 launch beside 0: 2", "2 launch beside 0: 3", "3 launch beside 0: 4", "7 link 0"}, []int{0}, 7, []int{0}, nil},
		"the launches end when the other leg is linked: it rests": {[]fate{ok, fails, fails, fails, fails},
			[]string{"0 launch: 0", "0 launch beside 0: 1", "1 launch beside 0: 2", "1 link 0", "2 launch beside 0: 3", "3 launch beside 0: 4"}, nil, 600, nil, errUnused},
		"all are late: that is no failure": {[]fate{{build: 9 * second, late: 2 * second}, {build: 9 * second, late: 2 * second}, {build: 9 * second, late: 2 * second}, {build: 9 * second, late: 2 * second}, {build: 9 * second, late: 2 * second}},
			nil, nil, 6, nil, pool.ErrLate},
		"no leg is left": {[]fate{fails, {build: second + 1, fails: errFails}, {build: second, fails: errFails}, {build: 0, fails: errFails}, {build: second, fails: errFails}},
			nil, nil, 2.000000001, nil, errFails},
		"the exit counts messages": {[]fate{ok, {build: 3 * second, link: second, says: circuit.ErrLinkFalse}},
			[]string{"0 launch: 0", "0 launch beside 0: 1", "1 link 0", "3 link 1"}, nil, 4, nil, circuit.ErrLinkFalse},
		"the exit does not answer: each leg rests": {[]fate{{link: -1}, {link: -1}, {link: -1}, {link: -1}, {link: -1}},
			nil, nil, 1800, nil, errUnused},
	} {
		t.Run(name, func(t *testing.T) {
			makeSet(t, c.fates, func(m *madeSet, set *OpenCircuit, err error, took float64) {
				synctest.Wait()
				m.mu.Lock()
				log, joined := slices.Clone(m.log), m.joined
				m.mu.Unlock()
				slices.Sort(log)
				if want := slices.Sorted(slices.Values(c.log)); c.log != nil && !slices.Equal(log, want) {
					t.Errorf("%q, not\n%q", log, want)
				}
				slices.Sort(joined)
				if !slices.Equal(joined, c.joined) || (set != nil) != (c.joined != nil) || !errors.Is(err, c.err) || took != c.took {
					t.Errorf("after %v s: %v, %v", took, joined, err)
				}
				if open := m.open(); !slices.Equal(open, c.open) {
					t.Errorf("open: %v", open)
				}
			})
		})
	}
}

// TestSetBuildGivenUp: whenever nobody wants the set any more, nothing of it is left.
func TestSetBuildGivenUp(t *testing.T) {
	for ms := 0; ms < 5000; ms += 250 {
		synctest.Test(t, func(t *testing.T) {
			var wg sync.WaitGroup
			base, cancel := context.WithCancel(context.Background())
			fates := []fate{{build: time.Second, link: time.Second}, {build: 1500 * time.Millisecond, fails: errFails}, {build: time.Hour, late: time.Second}, {build: 500 * time.Millisecond, link: 90 * time.Second}}
			m := &madeSet{fates: fates, begun: time.Now(), paths: map[*path.Path]int{}}
			s := &setBuild{works: m, log: slog.New(slog.DiscardHandler), wg: &wg, base: base, launches: 5}
			ctx, stop := context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
			defer stop()
			p, _ := m.choose(nil)
			if set, err := s.run(ctx, p, 2); set != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("at %d: %v", ms, err)
			}
			synctest.Wait()
			if open := m.open(); len(open) > 0 {
				t.Errorf("at %d: open: %v", ms, open)
			}
			cancel() // of the client: a leg that is late ends
			wg.Wait()
		})
	}
}
