package client

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/stream"
)

// TestRetries: an exit that cannot serve is followed by another, up to a bound; what
// the destination itself says is final. The program hears what the last exit said.
func TestRetries(t *testing.T) {
	// All but the last are C tor's, too (edge_reason_is_retriable); an exit that says
	// DESTROY is about to end.
	others := []cell.EndReason{cell.EndMisc, cell.EndResolveFailed, cell.EndExitPolicy, cell.EndNoRoute, cell.EndHibernating,
		cell.EndResourceLimit, cell.EndDestroy}
	for reason := cell.EndMisc; reason <= cell.EndNotDirectory; reason++ {
		t.Run(reason.String(), func(t *testing.T) { // a client remembers what an exit refused
			c, l := withLiars(t, Config{Network: netdir.Public()})
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			want := int64(1)
			if slices.Contains(others, reason) {
				want = streamTries
			}
			m := cell.End{Reason: reason}
			l.say(cell.RelayEnd, m.Append(nil))
			var end *stream.EndError
			if conn, err := c.Dial(ctx, Request{Host: "example.com", Port: 443}); conn != nil || !errors.As(err, &end) || end.Reason != reason {
				t.Error(err)
			}
			if n := l.asked.Load(); n != want {
				t.Errorf("%d exits were asked, not %d", n, want)
			}
		})
	}
}

// TestNoOtherExit: the error has what the last exit said, and why no other was asked.
func TestNoOtherExit(t *testing.T) {
	t.Parallel() // the pool looks for another circuit for some seconds
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.leave(1)
	l.say(cell.RelayEnd, (&cell.End{Reason: cell.EndResourceLimit}).Append(nil))
	_, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 443})
	var end *stream.EndError
	if !errors.As(err, &end) || end.Reason != cell.EndResourceLimit || !strings.Contains(err.Error(), "no other exit") {
		t.Error(err)
	}
	if n := l.asked.Load(); n != 1 {
		t.Errorf("%d exits were asked", n)
	}
}

// TestGivenUp: who gives up hears so, and no other exit is asked.
func TestGivenUp(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.say(cell.RelayDrop, nil) // which is no answer
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	done := make(chan error, 1)
	go func() {
		_, err := c.Dial(ctx, Request{Host: "example.com", Port: 443})
		done <- err
	}()
	for l.asked.Load() == 0 { // the stream waits at an exit
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel(enough)
	if err := <-done; !errors.Is(err, enough) {
		t.Error(err)
	}
	if n := l.asked.Load(); n != 1 {
		t.Errorf("%d exits were asked", n)
	}
}

// TestGivenUpEarly: who gives up while first bytes wait for the exit hears so, too.
func TestGivenUpEarly(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.say(cell.RelayDrop, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	live := *c.live.Load()
	live.StreamTimeout = 100 * time.Millisecond
	c.live.Store(&live)
	done := make(chan error, 1)
	go func() {
		_, err := c.Dial(ctx, Request{Host: "example.com", Port: 443, Early: make([]byte, 1<<20)}) // more than a stream's window
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, errStreamTimeout) {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("it still waits")
	}
	if n := l.asked.Load(); n != streamTries {
		t.Errorf("%d exits were asked", n)
	}
}

// TestStreamTimeouts: an exit that does not answer is given ten seconds, the third
// one fifteen, unless the user has set a time.
func TestStreamTimeouts(t *testing.T) {
	for _, x := range []struct {
		set  time.Duration
		want []time.Duration
	}{
		{0, []time.Duration{10 * time.Second, 10 * time.Second, 15 * time.Second, 15 * time.Second}},
		{time.Minute, []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute}},
	} {
		c := isolated(t, netdir.Public(), refuse)
		live := *c.live.Load()
		live.StreamTimeout = x.set
		c.live.Store(&live)
		for i, want := range x.want {
			if got := c.streamTimeout(i + 1); got != want {
				t.Errorf("set to %v, attempt %d: %v", x.set, i+1, got)
			}
		}
	}
}

// TestBuildTimesOnDisk: what was learned is there after a restart; rubbish is set
// aside and does not stop the client, and what cannot be read does.
func TestBuildTimesOnDisk(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "build-times.json")
	load := func() (*Client, error) {
		c := &Client{cfg: Config{Network: netdir.Public(), Dir: dir, Log: slog.New(slog.DiscardHandler)}, log: slog.New(slog.DiscardHandler)}
		return c, c.times.load(c.cfg.timesStore(), c.cbtParams(noParam), c.log)
	}
	c, err := load()
	if err != nil {
		t.Fatal("without a file: ", err)
	}
	if err := c.times.save(c.cfg.timesStore()); err != nil {
		t.Fatal(err)
	}
	if _, err := load(); err != nil {
		t.Error("what was saved: ", err)
	}
	for _, bad := range []string{"", "{", "null and void", `{"times": -1}`} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := load()
		if err != nil || c.times.e == nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := load(); !fault.Is(err, fault.Local) {
		t.Error("a directory in its place: ", err)
	}
}

// TestRefusedAddress: an exit that refuses an address, or a family of addresses, may be asked
// for its port: a policy in a consensus says nothing about single addresses. What it refuses
// without telling the address, it does not let out at all.
func TestRefusedAddress(t *testing.T) {
	told := cell.End{Reason: cell.EndExitPolicy, Addr: netip.MustParseAddr("203.0.114.7"), TTL: 60}
	bare := cell.End{Reason: cell.EndExitPolicy}
	for _, x := range []struct {
		name string
		req  Request
		end  cell.End
		keep bool
	}{
		{"a name's address", Request{Host: "refused.example"}, told, true},
		{"an address", Request{Host: "203.0.114.7"}, bare, true},
		{"a family", Request{Host: "refused.example", Family: stream.IPv4Only}, bare, true},
		{"a port", Request{Host: "refused.example"}, bare, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, l := withLiars(t, Config{Network: netdir.Public()})
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			l.say(cell.RelayEnd, x.end.Append(nil))
			x.req.Port = 443
			var end *stream.EndError
			if _, err := c.Dial(ctx, x.req); !errors.As(err, &end) || l.asked.Load() != streamTries {
				t.Fatal(err)
			}
			l.say(cell.RelayConnected, nil)
			if !x.keep { // the pool would try for seconds
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			conn, err := c.Dial(ctx, Request{Host: "other.example", Port: 443})
			if (err == nil) != x.keep {
				t.Error(err)
			}
			if err == nil {
				conn.Close()
			}
		})
	}
}

// TestPlainAddress: an exit is asked for the address for which it was chosen.
func TestPlainAddress(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.say(cell.RelayConnected, nil)
	conn, err := c.Dial(t.Context(), Request{Host: "::ffff:203.0.114.7", Port: 443})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, err := cell.ParseBegin(l.heard); err != nil || b.Host != "203.0.114.7" {
		t.Error(b.Host, err)
	}
}

// TestFamilyOfExits: a stream to a host of one family of addresses takes an exit that lets
// that family out.
func TestFamilyOfExits(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	for family, want := range map[stream.Family]string{stream.AnyFamily: "invalid IP", stream.IPv6First: "invalid IP", stream.IPv4Only: "0.0.0.0", stream.IPv6Only: "::"} {
		d, err := c.dest(Request{Host: "example.com", Port: 443, Family: family})
		if err != nil || d.Addr.String() != want {
			t.Errorf("%d: %v, %v", family, d.Addr, err)
		}
	}
}

// TestLeastTimeout: in a laboratory a timeout of milliseconds is not learned; on the public network the consensus alone says which is the least.
func TestLeastTimeout(t *testing.T) {
	lab := *netdir.Public()
	lab.Testing.AllowPrivateAddresses = true
	for _, n := range []*netdir.Network{netdir.Public(), &lab} {
		c := &Client{cfg: Config{Network: n}}
		if least := c.cbtParams(noParam).MinTimeout; (least >= minUsage) != n.Testing.AllowPrivateAddresses {
			t.Errorf("private addresses %v: at least %v", n.Testing.AllowPrivateAddresses, least)
		}
	}
}
