package hsclient

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
)

// endless is work that no test lives to see done.
var endless = hspow.Params{Effort: 1<<32 - 1}

// workersOn returns a client with n workers, and what counts their memory.
func workersOn(t *testing.T, n int, bound int64) (*Client, *account.Memory) {
	t.Helper()
	m := account.New(bound)
	c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler), Memory: m})
	t.Cleanup(c.Close)
	c.workers.busy = make(chan struct{}, n)
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
		_, err := c.workers.solve(ctx, endless)
		out <- err
	}()
	return cancel, out
}

func idle(t *testing.T, c *Client, m *account.Memory) {
	t.Helper()
	if m.Used() != 0 || len(c.workers.busy) != 0 || len(c.workers.helpers) != 0 || c.workers.waiting != 0 {
		t.Errorf("%d bytes, %d workers, %d helpers, %d wait", m.Used(), len(c.workers.busy), len(c.workers.helpers), c.workers.waiting)
	}
}

// TestWorkers: work that is alone has all workers. It leaves all but one to others, and no
// more work than that is done at the same time. All work is on the account of memory, and
// ends when it is given up.
func TestWorkers(t *testing.T) {
	c, m := workersOn(t, 2, 0)
	cancel, ended := begin(t, c)
	untilWorking(t, m, 2)
	p := hspow.Params{}
	for range 2 {
		proof, err := c.workers.solve(t.Context(), p)
		if err == nil {
			err = hspow.Check(&p.Blinded, &p.Seed, &proof)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	untilWorking(t, m, 1)
	cancel2, ended2 := begin(t, c)
	untilWorking(t, m, 2)
	short, over := context.WithTimeout(t.Context(), time.Millisecond)
	defer over()
	if _, err := c.workers.solve(short, p); !fault.Is(err, fault.Timeout) {
		t.Errorf("a third worker: %v", err)
	}
	for _, end := range []func(){cancel, cancel2} {
		end()
	}
	for _, ended := range []<-chan error{ended, ended2} {
		if err := <-ended; !fault.Is(err, fault.Timeout) {
			t.Error(err)
		}
	}
	idle(t, c, m)
}

// TestWorkTakesTurns: endless work with the only worker holds up no other, and no turn or
// its end loses the worker.
func TestWorkTakesTurns(t *testing.T) {
	c, m := workersOn(t, 1, 0)
	cancel, ended := begin(t, c)
	cancel2, ended2 := begin(t, c)
	for n := range 3 {
		p := hspow.Params{Seed: [32]byte{byte(n)}}
		proof, err := c.workers.solve(t.Context(), p)
		if err == nil {
			err = hspow.Check(&p.Blinded, &p.Seed, &proof)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	untilWorking(t, m, 1)
	cancel() // whether it works or waits
	if err := <-ended; !fault.Is(err, fault.Timeout) {
		t.Error(err)
	}
	cancel2()
	if err := <-ended2; !fault.Is(err, fault.Timeout) {
		t.Error(err)
	}
	idle(t, c, m)
}

// TestHelperFinds: a proof is done when any of its workers has found it.
func TestHelperFinds(t *testing.T) {
	c, m := workersOn(t, 2, 0)
	for n := range 2 {
		p := hspow.Params{Effort: 1, Seed: [32]byte{byte(n)}}
		proof, err := c.workers.solve(t.Context(), p)
		if err == nil {
			err = hspow.Check(&p.Blinded, &p.Seed, &proof)
		}
		if err != nil {
			t.Error(err)
		}
	}
	idle(t, c, m)
}

// TestWorkNeedsMemory: where there is no room there is no proof, and the error says why.
func TestWorkNeedsMemory(t *testing.T) {
	c, m := workersOn(t, 1, hspow.SolverSize-1)
	if _, err := c.workers.solve(t.Context(), hspow.Params{}); !fault.Is(err, fault.Resource) {
		t.Error(err)
	}
	idle(t, c, m)
}

// TestCloseEndsWork: a client that closes waits for no proof.
func TestCloseEndsWork(t *testing.T) {
	c, m := workersOn(t, 2, 0)
	c.cfg.MaxEffort = 1<<32 - 1
	desc := asking(1<<32 - 1)
	w := proofs{a: newApproach(c.history(desc.blinded), nil, c.puzzle(desc))}
	w.begin(c.ctx)
	untilWorking(t, m, 2)
	c.Close()
	if _, err := w.take(c.ctx); !fault.Is(err, fault.Timeout) {
		t.Error(err)
	}
	idle(t, c, m)
}
