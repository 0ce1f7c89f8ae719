package interop

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/hibernate"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/relay"
)

// hours are intervals of an hour each, which a test ends when it likes. All of them lie in the past.
type hours struct {
	first time.Time
	n     atomic.Int64
}

// At implements hibernate.Periods.
func (h *hours) At(time.Time) hibernate.Interval {
	start := h.first.Add(time.Duration(h.n.Load()) * time.Hour)
	return hibernate.Interval{Start: start, End: start.Add(time.Hour)}
}

// TestHibernationInCTorNetwork: C tor's authorities read in the descriptor that a relay hibernates and list it no more,
// and they list it again when it serves again.
func TestHibernationInCTorNetwork(t *testing.T) {
	t.Parallel()
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 2, Exits: 1, VotingInterval: 10 * time.Second, LogLevel: "info"})
	intervals := &hours{first: time.Now().Add(-100 * time.Hour).Round(0)}
	r := startRelay(t, nw, relay.Config{Nickname: "chivesleeper", AssumeReachable: true,
		Accounting: relay.Accounting{Max: 4_000_000, Rule: hibernate.Sum, Periods: intervals}})
	ctx := bounded(t, 4*patience)
	ctl, err := nw.Authorities()[0].Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	id := r.Target().RSA.String()
	running := func() bool {
		ns, err := ctl.GetInfo(ctx, "ns/id/"+id)
		return err == nil && strings.Contains(ns, " Running")
	}
	says := func(hibernating bool) func() bool {
		return func() bool {
			d, err := ctl.GetInfo(ctx, "desc/id/"+id)
			return err == nil && strings.Contains(d, "\nhibernating 1\n") == hibernating
		}
	}
	await(t, "the relay is listed", patience, running)
	if !says(false)() {
		t.Error("its descriptor says that it hibernates")
	}
	spend(ctx, t, r)
	await(t, "the limit is used up", patience, func() bool { return r.Status().Hibernation == "dormant" })
	await(t, "its descriptor says so", patience, says(true))
	await(t, "it is listed no more", patience, func() bool { return !running() })
	if c, err := net.DialTimeout("tcp", r.Target().Addrs[0].String(), time.Second); err == nil {
		c.Close()
		t.Error("its ORPort is open")
	}
	t.Logf("%+v", r.Status())
	intervals.n.Add(1)
	await(t, "its descriptor takes it back", patience, says(false))
	await(t, "it is listed again", patience, running)
	t.Logf("%+v", r.Status())
}

// spend has a relay move bytes until it closes the link.
func spend(ctx context.Context, t *testing.T, r *relay.Relay) {
	t.Helper()
	to := r.Target()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.Addrs[0].String())
	if err != nil {
		t.Fatal(err)
	}
	env := &circuit.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}
	link, err := channel.Connect(ctx, conn, to.RelayID, to.Addrs[0], &channel.LinkConfig{Log: env.Log})
	if err != nil {
		t.Fatal(err)
	}
	ch := channel.Start(link, &channel.Config{Log: env.Log, Now: time.Now})
	for ch.Err() == nil && ctx.Err() == nil {
		c, err := circuit.Create(ctx, env, ch, to, circuit.HopOptions{Handshake: handshake.Fast})
		if err == nil {
			c.Close(cell.DestroyNone, errors.New("it has moved its bytes"))
		}
	}
	<-ch.Done()
}
