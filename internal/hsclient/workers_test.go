package hsclient

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/isolation"
)

// endless is work that no test lives to see done.
var endless = hspow.Params{Effort: 1<<32 - 1}

// workersOn returns a client with n workers, and what counts their memory.
func workersOn(t *testing.T, n int, bound int64) (*Client, *account.Memory) {
	t.Helper()
	m := account.New(bound)
	c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler), Memory: m})
	t.Cleanup(c.Close)
	c.workers.most = n
	return c, m
}

// untilWorking waits until n workers work.
func untilWorking(t *testing.T, m *account.Memory, n int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); m.Used() != n*hspow.SolverSize; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d bytes", m.Used())
		}
	}
}

// begin begins endless work. The work ends with cancel, and its error comes.
func begin(t *testing.T, c *Client) (cancel context.CancelFunc, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	out := make(chan error, 1)
	go func() {
		_, err := c.workers.solve(ctx, isolation.Key{}, endless)
		out <- err
	}()
	return cancel, out
}

// untilIdle waits until the workers have ended, and tests that nothing is left.
func untilIdle(t *testing.T, c *Client, m *account.Memory) {
	t.Helper()
	untilWorking(t, m, 0)
	c.Close()
	if w := c.workers; w.running != 0 || len(w.jobs) != 0 {
		t.Errorf("%d workers, %d proofs", w.running, len(w.jobs))
	}
}

// TestWorkers: work that is alone has all workers, and no work has more than there are. Each
// worker has one solver, on the account of memory, however many proofs wait. All work ends
// when it is given up.
func TestWorkers(t *testing.T) {
	c, m := workersOn(t, 2, 0)
	cancel, ended := begin(t, c)
	untilWorking(t, m, 2)
	p := hspow.Params{}
	for range 2 {
		proof, err := c.workers.solve(t.Context(), isolation.Key{}, p)
		if err == nil {
			err = hspow.Check(&p.Blinded, &p.Seed, proof)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel2, ended2 := begin(t, c)
	short, over := context.WithTimeout(t.Context(), time.Millisecond)
	defer over()
	if _, err := c.workers.solve(short, isolation.Key{}, endless); !fault.Is(err, fault.Timeout) {
		t.Errorf("a third one: %v", err)
	}
	untilWorking(t, m, 2)
	for _, end := range []func(){cancel, cancel2} {
		end()
	}
	for _, ended := range []<-chan error{ended, ended2} {
		if err := <-ended; !fault.Is(err, fault.Closed) {
			t.Error(err)
		}
	}
	untilIdle(t, c, m)
}

// TestWorkTakesTurns: endless work with the only worker holds up no other, and no turn or
// its end loses the worker.
func TestWorkTakesTurns(t *testing.T) {
	c, m := workersOn(t, 1, 0)
	cancel, ended := begin(t, c)
	cancel2, ended2 := begin(t, c)
	for n := range 3 {
		p := hspow.Params{Seed: [32]byte{byte(n)}}
		proof, err := c.workers.solve(t.Context(), isolation.Key{}, p)
		if err == nil {
			err = hspow.Check(&p.Blinded, &p.Seed, proof)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	untilWorking(t, m, 1)
	cancel() // whether it works or waits
	if err := <-ended; !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
	cancel2()
	if err := <-ended2; !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
	untilIdle(t, c, m)
}

// TestHelperFinds: a proof is done when any of its workers has found it.
func TestHelperFinds(t *testing.T) {
	c, m := workersOn(t, 2, 0)
	for n := range 2 {
		p := hspow.Params{Effort: 1, Seed: [32]byte{byte(n)}}
		proof, err := c.workers.solve(t.Context(), isolation.Key{}, p)
		if err == nil {
			err = hspow.Check(&p.Blinded, &p.Seed, proof)
		}
		if err != nil {
			t.Error(err)
		}
	}
	untilIdle(t, c, m)
}

// TestWorkNeedsMemory: where there is no room there is no proof, and the error says why.
func TestWorkNeedsMemory(t *testing.T) {
	c, m := workersOn(t, 1, hspow.SolverSize-1)
	if _, err := c.workers.solve(t.Context(), isolation.Key{}, hspow.Params{}); !fault.Is(err, fault.Resource) {
		t.Error(err)
	}
	untilIdle(t, c, m)
}

// TestManyProofsFitInLittleMemory: where one solver fits, all proofs are made, however many wait.
func TestManyProofsFitInLittleMemory(t *testing.T) {
	c, m := workersOn(t, 2, hspow.SolverSize)
	errs := make(chan error, 6)
	for n := range cap(errs) {
		go func() {
			_, err := c.workers.solve(t.Context(), isolation.Key{}, hspow.Params{Seed: [32]byte{byte(n)}})
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	untilIdle(t, c, m)
}

// TestWorkerEvicted: a worker whose memory is taken away gives it back, and goes on if there
// is room again.
func TestWorkerEvicted(t *testing.T) {
	c, m := workersOn(t, 1, 0)
	cancel, ended := begin(t, c)
	untilWorking(t, m, 1)
	ticks := make(chan time.Time)
	told := make(chan int, 1)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx, ticks, func(n int, _ int64) { told <- n }) })
	more := m.Address(netip.MustParseAddr("192.0.2.1"))
	m.SetBound(hspow.SolverSize)
	more.Reserve(1) // the solver is the only one to go
	if n := <-told; n != 1 {
		t.Errorf("%d were evicted", n)
	}
	if err := <-ended; !fault.Is(err, fault.Resource) {
		t.Errorf("without room: %v", err)
	}
	cancel()
	more.Close()
	cancel, ended = begin(t, c)
	untilWorking(t, m, 1)
	cancel()
	<-ended
	stop()
	wg.Wait()
	untilIdle(t, c, m)
}

// TestWorkerFails: a panic ends the proof that was being made, and the worker. The other
// proofs end with the last worker.
func TestWorkerFails(t *testing.T) {
	s := scene{newWorkers(newWorker(t, 1))}
	s.most, s.running = 1, 1
	s.wants("page", 8)
	j := s.next(time.Now())
	other := s.wants("page", 9)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		s.work(nil, j)
	}()
	if <-j.over; j.err != errWorker || j.workers != 0 || other.done {
		t.Errorf("%v, %d workers; the other is over: %v", j.err, j.workers, other.done)
	}
	s.failed(errWorker)
	if <-other.over; other.err != errWorker || s.running != 0 || len(s.jobs) != 0 {
		t.Errorf("%v, %d workers, %d jobs", other.err, s.running, len(s.jobs))
	}
}

// scene is work as the workers choose it, without solvers and in virtual time.
type scene struct{ *workers }

// wants adds a proof of an effort that the streams of a key want.
func (s *scene) wants(key string, effort uint32) *job {
	j := &job{params: hspow.Params{Effort: effort}, key: isolation.Key{Auth: isolation.NewAuth(key)}, over: make(chan struct{}), end: func() {}}
	s.add(j)
	return j
}

// until works until a job has had as many nonces as its effort says, and returns how long that
// took. No other job is ever done.
func (s *scene) until(j *job) time.Duration {
	const nonce = 2 * effortTime // two solutions
	began := time.Now()
	for left := j.params.Effort; left > 0; {
		var chosen []*job
		for range s.most {
			chosen = append(chosen, s.next(time.Now()))
		}
		time.Sleep(nonce)
		for _, o := range chosen {
			if s.put(o, nonce); o == j {
				left -= min(left, 2)
			}
		}
	}
	s.finish(j, nil, nil)
	return time.Since(began)
}

// TestHostileProofsHoldUpNoOther: whatever strangers ask for, a proof of effort 100 is made
// in about the second that it takes, or in two, except that a page holds up itself with many
// small proofs.
func TestHostileProofsHoldUpNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		key    string // of the hostile services
		effort uint32
		before time.Duration // how long they were there
		most   time.Duration
	}{
		"the same page, large":               {"page", 10_000, 0, 2 * time.Second},
		"the same page, large, for a minute": {"page", 10_000, time.Minute, 2 * time.Second},
		"another page, large":                {"other", 10_000, time.Minute, 2 * time.Second},
		"another page, a little less":        {"other", 99, 0, 4 * time.Second},
		"another page, small":                {"other", 8, 0, 4 * time.Second},
		"another page, small, for a minute":  {"other", 8, time.Minute, 4 * time.Second},
		"a thousand pages, large":            {"", 10_000, time.Minute, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scene{workers: newWorkers(newWorker(t, 1))}
				s.most, s.running = 2, 2 // none begins
				for n := range 1000 {
					key := c.key
					if key == "" {
						key = strconv.Itoa(n)
					}
					s.wants(key, c.effort)
				}
				if c.before > 0 { // and had much time of the processors
					s.until(s.wants("warm up", uint32(c.before/effortTime/4)))
					time.Sleep(c.before)
				}
				if took := s.until(s.wants("page", 100)); took > c.most {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestLargeProofHasItsTurn: a stream of small proofs does not stop a large one.
func TestLargeProofHasItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scene{workers: newWorkers(newWorker(t, 1))}
		s.most, s.running = 1, 1
		large := s.wants("page", 500)
		turns := 0
		for range 3000 {
			s.wants("page", 8)
			j := s.next(time.Now())
			time.Sleep(2 * effortTime)
			s.put(j, 2*effortTime)
			if j == large {
				turns++
			} else {
				s.finish(j, nil, nil)
			}
		}
		if turns == 0 {
			t.Error("it had no turn in a minute")
		}
	})
}

// TestCloseEndsWork: a client that closes waits for no proof.
func TestCloseEndsWork(t *testing.T) {
	c, m := workersOn(t, 2, 0)
	c.cfg.MaxEffort = 1<<32 - 1
	desc := asking(1<<32 - 1)
	w := proofs{race: newRace(c.history(desc.blinded), nil, c.puzzle(desc))}
	w.begin(c.ctx)
	untilWorking(t, m, 2)
	c.Close()
	if _, err := w.take(c.ctx); !fault.Is(err, fault.Timeout) {
		t.Error(err)
	}
	untilIdle(t, c, m)
}
