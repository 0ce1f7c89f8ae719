package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// heard keeps what a watcher hears.
type heard struct {
	mu       sync.Mutex
	streams  []StreamReport
	circuits []CircuitReport
	more     chan struct{}
}

func listen(t *testing.T, c *Client) *heard {
	h := &heard{more: make(chan struct{}, 1)}
	wake := func() {
		select {
		case h.more <- struct{}{}:
		default:
		}
	}
	t.Cleanup(c.Watch(&Watcher{
		Stream: func(r StreamReport) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.streams = append(h.streams, r)
			wake()
		},
		Circuit: func(r CircuitReport) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.circuits = append(h.circuits, r)
			wake()
		},
	}))
	return h
}

// steps returns the steps of a stream so far.
func (h *heard) steps(id uint64) (out []StreamStep) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.streams {
		if r.ID == id {
			out = append(out, r.Step)
		}
	}
	return out
}

// waits waits for a stream to have come to a step, and returns it.
func (h *heard) waits(t *testing.T, step StreamStep) StreamReport {
	t.Helper()
	for {
		h.mu.Lock()
		for _, r := range h.streams {
			if r.Step == step {
				h.mu.Unlock()
				return r
			}
		}
		h.mu.Unlock()
		select {
		case <-h.more:
		case <-t.Context().Done():
			t.Fatal("the test ended")
		}
	}
}

// TestStreamSeen: who watches a client hears of each step of a stream, with its destination.
func TestStreamSeen(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.say(cell.RelayEnd, (&cell.End{Reason: cell.EndConnectRefused}).Append(nil))
	h := listen(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Dial(ctx, Request{Host: "example.com", Port: 443}); err == nil {
		t.Fatal("it opened")
	}
	r := h.waits(t, StreamClosed)
	if got := h.steps(r.ID); !slices.Equal(got, []StreamStep{StreamNew, StreamSent, StreamFailed, StreamClosed}) || r.Target() != "example.com:443" || r.Circuit == 0 {
		t.Errorf("%v of %+v", got, r)
	}
	if all := c.Streams(); len(all) != 0 {
		t.Errorf("it is still there: %+v", all)
	}
}

// TestUnattached: while controllers attach streams, a stream waits for one, who may send it elsewhere, or close it.
func TestUnattached(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.say(cell.RelayEnd, (&cell.End{Reason: cell.EndConnectRefused}).Append(nil))
	for _, x := range []struct {
		name string
		do   func(id uint64) error
		want []StreamStep
	}{
		{"attach", func(id uint64) error { return c.Attach(id, 0, 0) }, []StreamStep{StreamNew, StreamWaits, StreamSent, StreamFailed, StreamClosed}},
		{"close", func(id uint64) error { return c.CloseStream(id, cell.EndMisc) }, []StreamStep{StreamNew, StreamWaits, StreamFailed, StreamClosed}},
		{"end", func(uint64) error { c.LeaveUnattached(false); return nil }, []StreamStep{StreamNew, StreamWaits, StreamSent, StreamFailed, StreamClosed}},
		{"redirect", func(id uint64) error {
			return errors.Join(c.Redirect(id, "elsewhere.example", 0), c.Attach(id, 0, 0))
		}, []StreamStep{StreamNew, StreamWaits, StreamSent, StreamFailed, StreamClosed}},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := listen(t, c)
			c.LeaveUnattached(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := c.Dial(ctx, Request{Host: "example.com", Port: 443})
				done <- err
			}()
			id := h.waits(t, StreamWaits).ID
			for _, wrong := range []error{c.Attach(id+1000, 0, 0), c.Attach(id, id+1000, 0), c.Redirect(id+1000, "x", 1), c.CloseStream(id+1000, 1)} {
				if !errors.Is(wrong, ErrUnknown) {
					t.Error(wrong)
				}
			}
			if err := x.do(id); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err == nil {
				t.Error("it opened")
			}
			last := h.waits(t, StreamClosed)
			if got := h.steps(id); !slices.Equal(got, x.want) || x.name == "redirect" && last.Target() != "elsewhere.example:443" {
				t.Errorf("%v of %+v", got, last)
			}
			if err := c.Attach(id, 0, 0); !errors.Is(err, ErrUnknown) {
				t.Errorf("a stream that is over: %v", err)
			}
		})
	}
}

// TestNewCircuitRefused: without a directory there are no circuits for controllers, and a path that relays would
// refuse is refused at once.
func TestNewCircuitRefused(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	if _, err := c.NewCircuit(nil, ForController); err == nil {
		t.Error("a circuit without a directory")
	}
	for _, err := range []error{c.CloseCircuit(1<<40, false), c.SetPurpose(1<<40, ForController)} {
		if !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
	}
}

// TestMapAddresses: rules of controllers come before those of the configuration, may not lead in a circle, and are
// bounded.
func TestMapAddresses(t *testing.T) {
	cfg := Config{Network: netdir.Public(), Dial: refuse}
	cfg.Map, _ = ParseAddrMap([]string{"conf.example other.example"})
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	virtual := [2]netip.Prefix{netip.MustParsePrefix("127.192.0.0/10"), netip.MustParsePrefix("fe80::/10")}
	put := func(pairs ...string) (out []Mapped, errs []error) {
		var rules []Mapped
		for i := 0; i < len(pairs); i += 2 {
			rules = append(rules, Mapped{pairs[i], pairs[i+1]})
		}
		return c.MapAddresses(rules, virtual)
	}
	of := func(host string) string {
		to, err := c.mapped(host)
		if err != nil {
			t.Error(host, err)
		}
		return to
	}
	if _, errs := put("a.example", "b.example", "b.example", "a.example", "*.w.example", "*.x.example", "*.x.example", "*.w.example", "bad name", "x", "c.example", "conf.example"); fmt.Sprint(errs[0], errs[2], errs[5]) != "<nil> <nil> <nil>" || errs[1] == nil || errs[3] == nil || errs[4] == nil {
		t.Fatal(errs)
	}
	if got := of("a.example") + " " + of("b.example") + " " + of("k.w.example") + " " + of("c.example"); got != "b.example b.example k.x.example other.example" {
		t.Error(got)
	}
	if _, errs := put("conf.example", "mine.example"); errs[0] != nil || of("conf.example") != "mine.example" {
		t.Error(errs, of("conf.example"))
	}
	if _, errs := put("conf.example", "conf.example"); errs[0] != nil || of("conf.example") != "other.example" {
		t.Error("the configuration's rule did not come back", errs, of("conf.example"))
	}
	out, errs := put("0.0.0.0", "v4.example", "::", "v6.example", ".", "name.example")
	for i, prefix := range []string{"127.", "[fe", ""} {
		if errs[i] != nil || !strings.HasPrefix(out[i].From, prefix) || of(strings.Trim(out[i].From, "[]")) != out[i].To {
			t.Errorf("%d: %v %v", i, out[i], errs[i])
		}
	}
	if a := netip.MustParseAddr(out[0].From); !virtual[0].Contains(a) || !strings.HasSuffix(out[2].From, ".virtual") {
		t.Error(out)
	}
	live := *c.live.Load()
	live.Map = nil
	c.Reload(live)
	if of("a.example") != "b.example" || of("conf.example") != "conf.example" {
		t.Error("a reload took the rules of controllers, or left those of the configuration")
	}
	var many []string
	for i := range maxControlled + 10 {
		many = append(many, fmt.Sprintf("h%d.example", i), "to.example")
	}
	_, errs = put(many...)
	if !errors.Is(errs[len(errs)-1], ErrMapFull) || len(c.Controlled()) != maxControlled {
		t.Errorf("%v, %d rules", errs[len(errs)-1], len(c.Controlled()))
	}
}

// TestAttachTimeout: a stream does not wait for ever for a controller.
func TestAttachTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{}
		c.ctx, c.cancel = context.WithCancelCause(t.Context())
		c.LeaveUnattached(true)
		ctx, s := c.beginStream(t.Context(), &Request{Host: "example.com", Port: 443}, false)
		if _, err := s.awaitAttach(ctx); !errors.Is(err, errUnattached) {
			t.Error(err)
		}
		if s.attach(attachment{}) {
			t.Error("it still waits")
		}
		go func() {
			synctest.Wait()
			c.cancel(errClosed)
		}()
		if _, err := s.awaitAttach(ctx); !errors.Is(err, errClosed) {
			t.Error(err)
		}
		s.failed(errUnattached)
	})
}

// TestSteeredBound: controllers cannot have circuits without end; one that is closed makes room.
func TestSteeredBound(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	held := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		<-ctx.Done()
		return nil, errors.New("held up by the test")
	}
	network := *netdir.Public()
	network.Testing.AllowPrivateAddresses = true
	c := isolated(t, &network, held)
	c.pool.Store(pool.New(pool.Config{InitialPorts: []uint16{}, PerPort: -1}, &exits{}))
	h := listen(t, c)
	path := []netdir.Relay{d.Relay(0), d.Relay(1), d.Relay(2)}
	var ids []uint64
	for range maxSteered {
		id, err := c.NewCircuit(path, ForController)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if _, err := c.NewCircuit(path, ForController); !errors.Is(err, ErrManyCircuits) {
		t.Errorf("one more: %v", err)
	}
	for _, wrong := range [][]netdir.Relay{{path[0], path[0]}, {path[0], path[1], path[0]}, make([]netdir.Relay, maxSteeredHops+1)} {
		if _, err := c.NewCircuit(wrong, ForController); !errors.Is(err, ErrLongPath) {
			t.Errorf("%d hops: %v", len(wrong), err)
		}
	}
	h.launched(t, ids[0])
	if err := c.SetPurpose(ids[0], ForStreams); err != nil {
		t.Error(err)
	}
	if err := c.CloseCircuit(ids[0], true); err != nil || c.HasCircuit(ids[0]) {
		t.Error(err)
	}
	h.ended(t, ids[0])
	for c.steered.Load() >= maxSteered {
		select {
		case <-t.Context().Done():
			t.Fatal("it does not end")
		case <-time.After(time.Millisecond):
		}
	}
	if _, err := c.NewCircuit(path, ForController); err != nil {
		t.Error(err)
	}
}

// launched waits for a circuit to have begun, and ended for its end, which a controller wanted.
func (h *heard) launched(t *testing.T, id uint64) { h.circuit(t, id, CircuitLaunched) }
func (h *heard) ended(t *testing.T, id uint64) {
	if r := h.circuit(t, id, CircuitFailed); !errors.Is(r.Err, ErrController) || r.Purpose != ForStreams {
		t.Errorf("%+v", r)
	}
}

func (h *heard) circuit(t *testing.T, id uint64, step CircuitStep) CircuitReport {
	t.Helper()
	for {
		h.mu.Lock()
		i := slices.IndexFunc(h.circuits, func(r CircuitReport) bool { return r.ID == id && r.Step == step })
		if i >= 0 {
			defer h.mu.Unlock()
			return h.circuits[i]
		}
		h.mu.Unlock()
		select {
		case <-h.more:
		case <-t.Context().Done():
			t.Fatal("the test ended")
		}
	}
}
