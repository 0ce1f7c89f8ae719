package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/hibernate"
)

// turns are intervals of an hour each that a test ends when it likes. All of them lie in the past.
type turns struct {
	first time.Time
	n     atomic.Int64
}

func newTurns() *turns { return &turns{first: time.Now().Add(-100 * time.Hour).Round(0)} }

// At implements hibernate.Periods.
func (x *turns) At(time.Time) hibernate.Interval {
	start := x.first.Add(time.Duration(x.n.Load()) * time.Hour)
	return hibernate.Interval{Start: start, End: start.Add(time.Hour)}
}

// reach dials the ORPort until it is open, or closed.
func (v *victim) reach(t *testing.T, open bool) {
	t.Helper()
	ctx := within(t)
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", v.Target().Addrs[0].String())
		if err == nil {
			c.Close()
		}
		if (err == nil) == open {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the ORPort is open: %v", !open)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// spend moves bytes until the link or the circuit ends.
func (u *user) spend() {
	u.t.Helper()
	ctx := within(u.t)
	for u.ch.Err() == nil {
		if _, err := circuit.Create(ctx, userEnv, u.ch, u.v.Target(), circuit.HopOptions{Handshake: handshake.Fast}); err != nil && ctx.Err() != nil {
			u.t.Fatal(err)
		}
	}
}

// tick waits until what has moved so far was counted.
func (v *victim) tick(t *testing.T) {
	t.Helper()
	ctx := within(t)
	last := func() time.Time {
		v.acct.mu.Lock()
		defer v.acct.mu.Unlock()
		return v.acct.when
	}
	for began := last(); last().Equal(began); {
		select {
		case <-ctx.Done():
			t.Fatal("nothing is counted any more")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestHibernation: a relay whose limit is used up closes its ports and links, says so to those who read its
// descriptor, and serves again in the next interval.
func TestHibernation(t *testing.T) {
	periods := newTurns()
	const limit = 300_000
	v := startVictim(t, func(c *Config) { c.Accounting = Accounting{Max: limit, Rule: hibernate.Sum, Periods: periods} })
	for i := range 2 {
		v.reach(t, true)
		if s := v.Status(); s.Hibernation != "awake" || s.AccountingMax != limit || v.resting.Load() {
			t.Fatalf("interval %d begins: %+v", i, s)
		}
		v.connect(t, nil).spend() // until the relay closes the link
		if !v.acct.await(within(t), dormant) {
			t.Fatal("the relay is not dormant")
		}
		v.reach(t, false)
		if s := v.Status(); s.Hibernation != "dormant" || s.AccountingUsed < limit || !v.resting.Load() {
			t.Fatalf("interval %d, with the limit used up: %+v", i, s)
		}
		v.tick(t) // what came after the limit is of this interval, too
		periods.n.Add(1)
		if !v.acct.await(within(t), awake) {
			t.Fatalf("the relay does not wake: %+v\n%s", v.acct.status(), v.log.String())
		}
	}
	v.reach(t, true)
}

// TestHibernationEnds: a relay that is dormant, or waits for its port, ends when it is told to.
func TestHibernationEnds(t *testing.T) {
	periods := newTurns()
	v := startVictim(t, func(c *Config) { c.Accounting = Accounting{Max: 10_000, Rule: hibernate.Sum, Periods: periods} })
	v.connect(t, nil).spend()
	v.reach(t, false)
	other, err := net.Listen("tcp", v.Target().Addrs[0].String()) // another program has the port when the relay wakes
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	v.tick(t)
	periods.n.Add(1)
	if !v.acct.await(within(t), awake) {
		t.Fatalf("the relay does not wake: %+v\n%s", v.acct.status(), v.log.String())
	}
	ctx := within(t)
	for !strings.Contains(v.log.String(), "cannot open its port") {
		select {
		case <-ctx.Done():
			t.Fatalf("it does not say that the port is taken: %s", v.log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	if s := v.Status(); s.Hibernation != "waking" {
		t.Errorf("%+v", s)
	}
}

// TestHibernatingDescriptor: the descriptor of a relay that takes nothing new says so.
func TestHibernatingDescriptor(t *testing.T) {
	r, err := New(bridgeConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.closeListeners()
	for _, resting := range []bool{false, true} {
		r.resting.Store(resting)
		d, _, err := r.describe(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if d.Hibernating != resting {
			t.Errorf("hibernating: %v, want %v", d.Hibernating, resting)
		}
	}
}

// TestAccountingFile: what was used counts after a restart, and what cannot be is not believed.
func TestAccountingFile(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	periods := always{Start: now.Add(-time.Hour), End: now.Add(23 * time.Hour)}
	start := func(text string) (*accounting, string) {
		var said bytes.Buffer
		a := &accounting{path: filepath.Join(t.TempDir(), accountingFile), log: slog.New(slog.NewTextHandler(&said, nil))}
		if text != "" {
			if err := os.WriteFile(a.path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a.limitBytes(Accounting{Max: 1000, Rule: hibernate.Sum, Periods: periods}, 0, now)
		return a, said.String()
	}
	a, said := start("")
	if strings.Contains(said, "cannot be read") {
		t.Errorf("no file is no mistake: %s", said)
	}
	a.tick(now, 100, 50)
	a.tick(now.Add(time.Second), 400, 150)
	a.save(now.Add(time.Second))
	text, err := os.ReadFile(a.path)
	if err != nil {
		t.Fatal(err)
	}
	if a, said = start(string(text)); a.status().Used != 550 || strings.Contains(said, "cannot be read") {
		t.Errorf("%d bytes count after a restart: %s", a.status().Used, said)
	}
	a.tick(now.Add(2*time.Second), 0, 0)
	a.tick(now.Add(3*time.Second), 500, 0)
	if s, _ := a.now(); s != hibernate.Dormant {
		t.Errorf("with %d of 1000 bytes: %v", a.status().Used, s)
	}
	for name, text := range map[string]string{
		"no JSON": "accounting", "another type": `{"bytes_read": -1}`, "bytes of no interval": `{"bytes_read": 5}`,
		"a far time": `{"interval_start": "9999-01-01T00:00:00Z", "wake": "9999-01-01T00:00:00Z"}`, "too long": strings.Repeat(" ", maxAccountingFile) + "{}",
	} {
		if a, said := start(text); a.status().Used != 0 || !strings.Contains(said, "cannot be read") {
			t.Errorf("%s: %d bytes; %s", name, a.status().Used, said)
		}
	}
	full, err := json.Marshal(hibernate.Count{Start: periods.Start, Wake: periods.Start, Read: math.MaxUint64, Written: math.MaxUint64})
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := start(string(full)); a.status().Used != math.MaxUint64 {
		t.Errorf("%d bytes of all that there are", a.status().Used)
	}
}

// TestAccountingWrites: a relay that moves bytes all the time writes its file at most once a minute.
func TestAccountingWrites(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	a := &accounting{path: filepath.Join(t.TempDir(), accountingFile), log: quiet}
	a.limitBytes(Accounting{Max: 1 << 50, Periods: always{Start: now, End: now.Add(24 * time.Hour)}}, 0, now)
	writes := 0
	for i := range 600 {
		if err := os.Remove(a.path); err == nil {
			writes++
		}
		a.tick(now.Add(time.Duration(i)*time.Second), uint64(i)<<26, 0)
	}
	if writes < 5 || writes > 11 {
		t.Errorf("%d writes in ten minutes", writes)
	}
}

// TestLimitAway: an operator who takes the limit away has the relay serve at once.
func TestLimitAway(t *testing.T) {
	now := time.Now()
	a := &accounting{path: filepath.Join(t.TempDir(), accountingFile), log: quiet}
	a.limitBytes(Accounting{Max: 1, Rule: hibernate.Sum, Periods: newTurns()}, 0, now)
	a.tick(now, 10, 10)
	if s, _ := a.now(); s != hibernate.Dormant {
		t.Fatalf("%v", s)
	}
	woke := make(chan bool, 1)
	go func() { woke <- a.await(context.WithoutCancel(t.Context()), awake) }()
	a.limitBytes(Accounting{}, 0, now)
	if !<-woke {
		t.Error("the relay does not wake")
	}
	if s := a.status(); s.Max != 0 {
		t.Errorf("%+v", s)
	}
}

// TestHibernatingRefuses: who is connected when little is left opens no new circuit.
func TestHibernatingRefuses(t *testing.T) {
	v := startVictim(t, nil)
	u := v.connect(t, nil)
	u.circuit()
	v.resting.Store(true)
	_, err := circuit.Create(within(t), userEnv, u.ch, v.Target(), circuit.HopOptions{Handshake: handshake.Fast})
	if err == nil || !strings.Contains(err.Error(), cell.DestroyHibernating.String()) {
		t.Errorf("a circuit: %v", err)
	}
}

// always is one interval, which contains all that a test does.
type always hibernate.Interval

func (a always) At(time.Time) hibernate.Interval { return hibernate.Interval(a) }
