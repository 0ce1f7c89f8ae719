package interop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// The transfers while relays are killed: each stream reads a piece, and pauses.
const (
	killStreams = 4
	killSize    = 5 << 20
	killPiece   = 128 << 10
	killPause   = 250 * time.Millisecond
	// killOpen is how long one attempt to open a stream may take.
	killOpen = 20 * time.Second
	// idleBytes is what a relay reads in two seconds that carries none of the streams.
	idleBytes = 300_000
	// longestGap is how long no connection may succeed. Only a run that measures fails
	// because of it: CHIVE_LONG=1.
	longestGap = 5 * time.Second
)

// TestOnionKill kills introduction points and directories of a service while clients of
// both programs use it: established streams lose nothing, and new ones can be opened. What
// C tor's client does is logged: it counts each relay that is down in its paths against the
// introduction point, and asks a directory only once in a quarter of an hour. The same is
// done to a service of C tor's, to compare with.
func TestOnionKill(t *testing.T) {
	if os.Getenv("CHIVE_LONG") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: its networks are of thirteen C tor; CHIVE_LONG=1 runs it, in five minutes")
	}
	for _, service := range []string{"Chive", "C tor"} {
		t.Run(service+"'s service", func(t *testing.T) { killUnderTransfer(t, service == "Chive") })
	}
}

// killUnderTransfer does it to Chive's service; not ours: to C tor's.
func killUnderTransfer(t *testing.T, ours bool) {
	dir := t.TempDir()
	opts := ctor.Options{Authorities: 1, Relays: 11, Exits: 1, Clients: 3, Extra: map[string][]string{"client": {"LearnCircuitBuildTimeout 0"}}}
	ports := map[int]string{onionEcho: shared.target.Addr(target.Echo), onionSource: shared.target.Addr(target.Source)}
	if !ours {
		opts.Extra["client2"] = []string{"HiddenServiceDir " + dir + "/service"}
		for port, addr := range ports {
			opts.Extra["client2"] = append(opts.Extra["client2"], fmt.Sprintf("HiddenServicePort %d %s", port, addr))
		}
	}
	nw := ctortest.Network(t, opts)
	ctx := bounded(t, 6*time.Minute)
	d := nw.Description()
	k := &killer{t: t, nw: nw, asks: nw.Node("client1")}
	if ours {
		k.address = serve(t, inNetwork(t, &d, "service", nil), chive.OnionConfig{Targets: ports}).Address()
	} else {
		name, err := os.ReadFile(dir + "/service/hostname")
		if err != nil {
			t.Fatal(err)
		}
		k.address = strings.TrimSpace(string(name))
	}
	tor, own := nw.Node("client0"), inNetwork(t, &d, "client", nil)
	dialers := []func(n int) contextDialer{
		func(n int) contextDialer {
			return socksclient.Dialer{Proxy: tor.SOCKS.String(), User: fmt.Sprint(n), Pass: "x"}
		},
		func(int) contextDialer { return own.Isolated() },
	}
	to := fmt.Sprintf("%s:%d", k.address, onionEcho)
	await(t, "the service", patience, func() bool { return echo(ctx, own.Isolated(), to, "hello") == nil })

	// New connections, all the time.
	probing, stop := context.WithCancel(ctx)
	defer stop()
	var probes []*probe
	var wg sync.WaitGroup
	for i, dialer := range dialers {
		p := &probe{name: []string{"C tor", "Chive"}[i], pause: 300 * time.Millisecond, peers: i == 0 || !ours, dial: func(ctx context.Context, n int, addr string) error {
			began := time.Now()
			err := echo(ctx, dialer(1000+n), addr, fmt.Sprint(n))
			if err != nil && time.Unix(0, k.killed.Load()).After(began) {
				err = echo(ctx, dialer(10_000+n), addr, fmt.Sprint(n)) // the relay may have carried its circuit
			}
			return err
		}}
		probes = append(probes, p)
		wg.Go(func() { p.run(probing, t, to) })
	}
	for round := range 2 {
		victim, wait := k.idlePoint(ctx, dialers, round*100)
		k.kill(victim, "introduction point")
		dir := k.idleDirectory(ctx)
		if dir != nil {
			k.kill(dir, "directory")
		}
		for _, err := range wait() {
			t.Error("an established stream: ", err)
		}
		began := time.Now()
		whole := func() bool {
			points := k.points(ctx)
			return len(points) == 3 && !slices.ContainsFunc(points, func(n *ctor.Node) bool { return n.PID() == 0 })
		}
		if ours {
			await(t, "new introduction points", patience, whole)
		} else if !whole() {
			t.Log("the descriptor does not name three points that live")
		}
		t.Logf("looked at the introduction points for %v", time.Since(began).Round(100*time.Millisecond))
	}
	stop()
	wg.Wait()
	for _, p := range probes {
		t.Logf("%s: %d connects, %d failed, the longest took %v", p.name, p.connects, p.failed, p.longest.Round(time.Millisecond))
		if !p.peers && p.longest > longestGap {
			t.Errorf("%s: no connection for %v", p.name, p.longest)
		}
	}
}

// killer knows a service's relays.
type killer struct {
	t       *testing.T
	nw      *ctor.Network
	address string
	asks    *ctor.Node // asks for the service's descriptors, and does nothing else

	killed atomic.Int64 // when a relay was killed last; Unix nanoseconds
}

func (k *killer) kill(n *ctor.Node, what string) {
	k.t.Logf("kill %s: %s", what, n.Name)
	k.killed.Store(time.Now().UnixNano())
	if err := n.Kill(); err != nil {
		k.t.Fatal(err)
	}
}

// alive returns the relays that run.
func (k *killer) alive() []*ctor.Node {
	return slices.DeleteFunc(k.nw.Routers(), func(n *ctor.Node) bool { return n.PID() == 0 })
}

// descriptor returns what a directory has; empty: nothing.
func (k *killer) descriptor(ctx context.Context, from *ctor.Node) string {
	k.t.Helper()
	c, err := k.asks.Control(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	defer c.Close()
	events, err := c.Events(ctx, "HS_DESC_CONTENT")
	if err != nil {
		k.t.Fatal(err)
	}
	if _, err := c.Command(ctx, "HSFETCH "+strings.TrimSuffix(k.address, ".onion")+" SERVER=$"+from.ID.RSA.String()); err != nil {
		k.t.Fatal(err)
	}
	select {
	case e := <-events:
		_, text, _ := strings.Cut(e.Rest, "\n")
		return text
	case <-time.After(10 * time.Second): // the circuit could not be built
		return ""
	}
}

// points returns the introduction points of the newest descriptor.
func (k *killer) points(ctx context.Context) (out []*ctor.Node) {
	k.t.Helper()
	id, err := hscrypto.ParseAddress(k.address)
	if err != nil {
		k.t.Fatal(err)
	}
	var newest *netdoc.HSDescriptor
	asked := 0
	for _, n := range k.alive() {
		text := k.descriptor(ctx, n)
		if !strings.HasPrefix(text, "hs-descriptor ") {
			continue
		}
		d, err := netdoc.ParseHSDescriptor([]byte(text+"\n"), time.Now()) // the control port ends no line
		if err != nil {
			k.t.Fatal(err)
		}
		if newest == nil || d.Revision > newest.Revision {
			newest = d
		}
		if asked++; asked == 3 {
			break
		}
	}
	if newest == nil {
		return nil
	}
	inner, err := newest.Open(hscrypto.Subcredential(id, newest.Blinded), nil)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, p := range inner.Points {
		t, err := linkspec.TargetOf(p.Specs)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, n := range k.nw.Routers() {
			if n.ID.RSA == t.RSA {
				out = append(out, n)
			}
		}
	}
	return out
}

// idle returns the relays that carry no stream.
func (k *killer) idle(ctx context.Context) (out []*ctor.Node) {
	k.t.Helper()
	alive := k.alive()
	before := traffic(k.t, ctx, alive)
	time.Sleep(2 * time.Second) // a measurement over time
	for n, bytes := range traffic(k.t, ctx, alive) {
		if bytes-before[n] < idleBytes && n.Role != ctor.Authority {
			out = append(out, n)
		}
	}
	return out
}

// idlePoint opens streams until one of the introduction points carries none of them, and
// returns it. wait returns the streams' errors when they have ended.
func (k *killer) idlePoint(ctx context.Context, dialers []func(int) contextDialer, first int) (victim *ctor.Node, wait func() []error) {
	k.t.Helper()
	for try := range 20 {
		points := k.points(ctx)
		streams, cancel := context.WithCancel(ctx)
		errs := make(chan error, killStreams)
		open := 0
		for i := range killStreams {
			who := i % len(dialers)
			if c := k.open(streams, dialers[who], who == 0, first+try*killStreams+i); c != nil {
				open++
				go func() { errs <- slowDownload(streams, c) }()
			}
		}
		wait := func() (out []error) {
			for range open {
				if err := <-errs; err != nil {
					out = append(out, err)
				}
			}
			cancel()
			return out
		}
		idle := k.idle(ctx)
		for _, p := range points {
			if slices.Contains(idle, p) {
				return p, wait
			}
		}
		cancel()
		wait()
	}
	k.t.Fatal("each introduction point carries a stream")
	return nil, nil
}

// idleDirectory returns a directory of the service that carries no stream, or nil.
func (k *killer) idleDirectory(ctx context.Context) *ctor.Node {
	for _, n := range k.idle(ctx) {
		if strings.HasPrefix(k.descriptor(ctx, n), "hs-descriptor ") {
			return n
		}
	}
	return nil
}

// open opens a stream to the service. Clients may need several attempts while relays are
// down; n and every further one is over circuits of its own. C tor's client, which may have
// given up all introduction points, gets two: nil then.
func (k *killer) open(ctx context.Context, dialer func(int) contextDialer, mayFail bool, n int) (c net.Conn) {
	k.t.Helper()
	for try := 0; ; try++ {
		one, cancel := context.WithTimeout(ctx, killOpen)
		c, err := dial(one, dialer(n+10_000*try), fmt.Sprintf("%s:%d", k.address, onionSource))
		cancel()
		if err == nil {
			err = c.SetDeadline(time.Time{})
		}
		switch {
		case err == nil:
			return c
		case mayFail && try == 1:
			k.t.Logf("C tor's client opens no stream: %v", err)
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			k.t.Fatal("no stream to the service: ", err)
		}
	}
}

// slowDownload downloads known bytes no faster than wanted.
func slowDownload(ctx context.Context, c net.Conn) error {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, killSize)); err != nil {
		return err
	}
	got := make([]byte, 0, killSize)
	tick := time.NewTicker(killPause)
	defer tick.Stop()
	for len(got) < killSize {
		n, err := io.ReadFull(c, got[len(got):len(got)+killPiece])
		if got = got[:len(got)+n]; err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", len(got), killSize, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	want, err := io.ReadAll(target.Bytes(killSize))
	if err == nil && !slices.Equal(got, want) {
		err = errors.New("the bytes differ")
	}
	return err
}
