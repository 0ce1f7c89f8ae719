// Package soak puts load on a network for a long time while its relays end and come
// back, and judges what came of it.
package soak

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/lab"
)

// Plan says how to treat a network for a long time.
type Plan struct {
	Time    time.Duration // how long there is load, without the two times of rest
	Workers int           // transfers at the same time; default 8
	Bytes   int64         // the largest transfer; default 2 MB
	// Rate is the most bytes a second that all workers together move, on average;
	// 0: as many as they can.
	Rate int64
	// Every is the mean time from one relay's end to the next's; each is started
	// again after a second at most. Default 5 s; negative: none ends.
	Every time.Duration
	Seed  uint64 // of all choices
	// Progress is told about every 30 seconds how it stands; may be nil.
	Progress func(Report)
}

// Report is what came out. Transfers that a relay's end has cut are
// expected; bytes that are wrong, or a leak, are not.
type Report struct {
	Elapsed   time.Duration `json:"elapsed_ns"`
	Completed int64         `json:"completed"` // transfers whose bytes were all right
	Cut       int64         `json:"cut"`       // transfers that ended early
	Wrong     int64         `json:"wrong"`     // transfers with other bytes than were sent
	Bytes     int64         `json:"bytes"`     // of completed transfers
	Restarts  int64         `json:"restarts"`  // of relays
	// Causes counts what the transfers that ended early said.
	Causes map[string]int `json:"causes,omitempty"`
	// Resources after a quarter of the load, and at the end, both at rest.
	Early Resources `json:"early"`
	Late  Resources `json:"late"`
}

// Resources is what this process holds.
type Resources struct {
	Goroutines  int     `json:"goroutines"`
	Descriptors int     `json:"descriptors"` // -1 where it cannot be told
	Heap        float64 `json:"heap_mb"`     // live after collections, 10^6 bytes
	RSS         float64 `json:"rss_mb"`      // 0 where it cannot be told
}

// rest is how long the load pauses before resources are counted: circuits that
// were used are then over, when their MaxCircuitDirtiness is the shortest that
// can be had, 10 s. As C tor's, a client looks for such circuits every 30 s.
const rest = 45 * time.Second

// Err is nil if the report shows nothing that must not be. What grows between
// the two counts by a third and a margin is taken for a leak; pools and tables
// that still fill up are not.
func (r *Report) Err() error {
	grows := func(early, late, margin float64) bool { return late > early*4/3+margin }
	switch {
	case r.Wrong > 0:
		return fault.New(fault.Protocol, "soak: %d transfers brought other bytes than were sent", r.Wrong)
	case r.Completed == 0:
		return fault.New(fault.Network, "soak: no transfer was completed")
	case grows(float64(r.Early.Goroutines), float64(r.Late.Goroutines), 50):
		return fault.New(fault.Resource, "soak: goroutines grew from %d to %d", r.Early.Goroutines, r.Late.Goroutines)
	case grows(float64(r.Early.Descriptors), float64(r.Late.Descriptors), 20):
		return fault.New(fault.Resource, "soak: descriptors grew from %d to %d", r.Early.Descriptors, r.Late.Descriptors)
	case grows(r.Early.Heap, r.Late.Heap, 10):
		return fault.New(fault.Resource, "soak: the heap grew from %.1f to %.1f MB", r.Early.Heap, r.Late.Heap)
	}
	return nil
}

// soak is one run.
type soak struct {
	*Plan
	nw     *lab.Network
	target *target.Target
	pause  sync.RWMutex // held for writing while resources are counted

	completed, cut, wrong, bytes, restarts atomic.Int64

	mu     sync.Mutex // guards what follows
	causes map[string]int

	early Resources // owned by Run
}

// Run puts load on a network while its relays end and come back at random. It
// returns an error only when it could not go on; Report.Err judges.
func Run(ctx context.Context, nw *lab.Network, p Plan) (_ *Report, err error) {
	def(&p.Workers, 8)
	def(&p.Bytes, 2_000_000)
	def(&p.Every, 5*time.Second)
	if p.Progress == nil {
		p.Progress = func(Report) {}
	}
	s := &soak{Plan: &p, nw: nw, causes: map[string]int{}}
	if s.target, err = target.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.target.Close()) }()
	began := time.Now()
	running, stop := context.WithTimeout(ctx, p.Time+rest)
	defer stop()
	var wg sync.WaitGroup
	for i := range p.Workers {
		wg.Go(func() { s.work(running, rand.New(rand.NewPCG(p.Seed, uint64(i)))) })
	}
	errs := make(chan error, 1)
	if p.Every > 0 {
		wg.Go(func() {
			if err := s.disturb(running, rand.New(rand.NewPCG(p.Seed, 1<<32))); err != nil {
				errs <- err
				stop()
			}
		})
	}
	quarter := time.NewTimer(p.Time / 4)
	defer quarter.Stop()
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-quarter.C:
			s.pause.Lock()
			s.early = resources(ctx)
			s.pause.Unlock()
		case <-tick.C:
			p.Progress(s.report(began))
		case <-running.Done():
			done = true
		}
	}
	wg.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
	}
	r := s.report(began)
	if ctx.Err() != nil {
		return &r, fault.New(fault.Closed, "soak: %w", context.Cause(ctx))
	}
	r.Late = resources(ctx)
	return &r, nil
}

func def[T int | int64 | time.Duration](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}

func (s *soak) report(began time.Time) Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Report{Causes: maps.Clone(s.causes), Elapsed: time.Since(began), Completed: s.completed.Load(), Cut: s.cut.Load(), Wrong: s.wrong.Load(),
		Bytes: s.bytes.Load(), Restarts: s.restarts.Load(), Early: s.early}
}

// work does one transfer after the other: down, up, to and fro, of any length,
// on circuits that are shared or its own.
func (s *soak) work(ctx context.Context, rng *rand.Rand) {
	client := s.nw.Client.Isolated()
	for ctx.Err() == nil {
		s.pause.RLock()
		if rng.IntN(4) == 0 {
			client = s.nw.Client.Isolated()
		}
		service := []target.Service{target.Source, target.Sink, target.Echo}[rng.IntN(3)]
		n := 1 + rng.Int64N(s.Bytes)
		began := time.Now()
		one, cancel := context.WithTimeout(ctx, time.Minute)
		wrong, err := s.transfer(one, client.DialContext, service, n)
		cancel()
		s.pause.RUnlock()
		switch {
		case wrong:
			s.wrong.Add(1)
		case err == nil:
			s.completed.Add(1)
			s.bytes.Add(n)
		case ctx.Err() == nil:
			s.cut.Add(1)
			s.mu.Lock()
			s.causes[fmt.Sprintf("%v after %v: %v", service, time.Since(began).Round(10*time.Second), err)]++
			s.mu.Unlock()
		}
		if s.Rate > 0 {
			share := time.Duration(float64(n) * float64(s.Workers) / float64(s.Rate) * float64(time.Second))
			wait(ctx, share-time.Since(began))
		}
	}
}

// transfer moves n bytes and tells whether those that came were wrong.
func (s *soak) transfer(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), service target.Service, n int64) (wrong bool, err error) {
	c, err := dial(ctx, "tcp", s.target.Addr(service))
	if err != nil {
		return false, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	if service == target.Echo {
		n = min(n, 50_000) // no more than is buffered on the way: nobody reads while it is written
	} else if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
		return false, err
	}
	if service != target.Source {
		if _, err := io.Copy(struct{ io.Writer }{c}, target.Bytes(n)); err != nil {
			return false, err
		}
	}
	var sum [32]byte
	if service == target.Sink {
		if _, err := io.ReadFull(c, sum[:]); err != nil {
			return false, err
		}
	} else {
		h := sha256.New()
		if got, err := io.Copy(h, io.LimitReader(c, n)); err != nil {
			return false, err
		} else if got < n {
			return false, io.ErrUnexpectedEOF
		}
		sum = [32]byte(h.Sum(nil))
	}
	return sum != sumOf(n), nil
}

// sumOf is target.Sum without its memory of every length.
func sumOf(n int64) [32]byte {
	h := sha256.New()
	_, _ = io.Copy(h, target.Bytes(n)) // neither a generator nor a hash fails
	return [32]byte(h.Sum(nil))
}

// disturb ends relays and starts them again.
func (s *soak) disturb(ctx context.Context, rng *rand.Rand) error {
	var relays []*lab.Node
	for _, n := range s.nw.Nodes() {
		if n.Program == "chive" && (n.Role == lab.Relay || n.Role == lab.Exit) {
			relays = append(relays, n)
		}
	}
	for wait(ctx, time.Duration(rng.ExpFloat64()*float64(s.Every))) {
		s.pause.RLock()
		n := relays[rng.IntN(len(relays))]
		err := n.Kill()
		if err == nil {
			wait(ctx, time.Duration(rng.Int64N(int64(time.Second))))
			err = n.Restart(context.WithoutCancel(ctx)) // at the end, too: a later user finds it
		}
		s.pause.RUnlock()
		if err != nil {
			return fault.New(fault.KindOf(err), "soak: restart %s: %w", n.Name, err)
		}
		s.restarts.Add(1)
	}
	return nil
}

// wait waits; false when ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// resources counts what this process holds, after some rest.
func resources(ctx context.Context) Resources {
	wait(ctx, rest)
	// Pools give back what they hold in two collections. What is live is counted,
	// not the pages that it is spread over.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := Resources{Goroutines: runtime.NumGoroutine(), Descriptors: -1, Heap: float64(m.HeapAlloc) / 1e6}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		r.Descriptors = len(fds)
	}
	if u, err := proc.Of(os.Getpid()); err == nil {
		r.RSS = float64(u.RSS) / 1e6
	}
	return r
}
