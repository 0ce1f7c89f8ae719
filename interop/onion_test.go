package interop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/lab"
)

// Ports of the onion service, for servers of the target.
const (
	onionEcho   = 7
	onionSource = 80
)

// torOnion is an onion service of C tor's and a client of C tor's, in a network whose
// relays are Chive's, and of C tor's too if the network says so.
type torOnion struct {
	service, client *ctor.Node
	host            string
}

// startTorOnion starts both under the authorities of a lab's network.
func startTorOnion(t *testing.T, nw *lab.Network) *torOnion {
	t.Helper()
	dir := t.TempDir()
	serve := []string{"HiddenServiceDir " + filepath.Join(dir, "onion")}
	for port, s := range map[int]target.Service{onionEcho: target.Echo, onionSource: target.Source} {
		serve = append(serve, fmt.Sprintf("HiddenServicePort %d %s", port, shared.target.Addr(s)))
	}
	tor := torBeside(t, nw, ctor.Options{Clients: 2, Extra: map[string][]string{"client0": serve}})
	name, err := os.ReadFile(filepath.Join(dir, "onion", "hostname"))
	if err != nil {
		t.Fatal(err)
	}
	return &torOnion{tor.Node("client0"), tor.Node("client1"), strings.TrimSpace(string(name))}
}

// torBeside starts C tor's clients under the authorities of a lab's network.
func torBeside(t *testing.T, nw *lab.Network, opts ctor.Options) *ctor.Network {
	t.Helper()
	opts.DirAuthorities, opts.Relays, opts.Exits = []string{}, -1, -1
	opts.Dir, opts.Log = filepath.Join(t.TempDir(), "tor"), slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, a := range describe(t, nw).Authorities {
		opts.DirAuthorities = append(opts.DirAuthorities, fmt.Sprintf("%s orport=%d no-v2 v3ident=%s %s %s",
			a.Nickname, a.ORPorts[0].Port(), a.V3Ident, a.DirPort, a.RSA))
	}
	if err := os.Mkdir(opts.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	tor, err := ctor.Start(bounded(t, patience), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tor.Close(); err != nil {
			t.Error(err)
		}
	})
	return tor
}

// dialer returns the client's, with circuits of its own for each name.
func (o *torOnion) dialer(name string) socksclient.Dialer {
	return socksclient.Dialer{Proxy: o.client.SOCKS.String(), User: name, Pass: name}
}

// await waits until the service has published its descriptor and a client connects.
func (o *torOnion) await(ctx context.Context, t *testing.T) {
	t.Helper()
	began := time.Now()
	for n := 0; ; n++ {
		one, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := echo(one, o.dialer(fmt.Sprintf("first %d", n)), fmt.Sprintf("%s:%d", o.host, onionEcho), "hello")
		cancel()
		if err == nil {
			t.Logf("first connection after %v, at the %d. attempt", time.Since(began).Round(time.Millisecond), n+1)
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(errors.Join(err, ctx.Err()))
		case <-time.After(time.Second): // the client has told that there is no descriptor yet
		}
	}
}

// use connects many times, each over circuits of its own, and moves data.
func (o *torOnion) use(ctx context.Context, t *testing.T) {
	t.Helper()
	o.await(ctx, t)
	connects := 10
	if os.Getenv("CHIVE_LONG") != "" {
		connects = 100
	}
	var took time.Duration
	for i := range connects {
		began := time.Now()
		if err := echo(ctx, o.dialer(fmt.Sprint("connect ", i)), fmt.Sprintf("%s:%d", o.host, onionEcho), fmt.Sprint("number ", i)); err != nil {
			t.Fatalf("connect %d of %d: %v", i+1, connects, err)
		}
		took += time.Since(began)
	}
	t.Logf("%d connects, %v each", connects, (took / time.Duration(connects)).Round(time.Millisecond))
	began := time.Now()
	if err := download(ctx, o.dialer("bulk"), fmt.Sprintf("%s:%d", o.host, onionSource), onionBulk()); err != nil {
		t.Error(err)
	}
	t.Logf("%d MiB in %v", onionBulk()>>20, time.Since(began).Round(time.Millisecond))
	onionStreams(t, o.dialer("streams"), o.host)
}

// onionBulk is the size of a large download, in bytes.
func onionBulk() int64 {
	if os.Getenv("CHIVE_LONG") != "" {
		return 100 << 20
	}
	return 10 << 20
}

// onionStreams opens a hundred streams over one circuit at the same time.
func onionStreams(t *testing.T, d contextDialer, host string) {
	t.Helper()
	streams(t, d, host, 100)
}

// streams opens so many streams over one circuit at the same time.
func streams(t *testing.T, d contextDialer, host string, number int) {
	t.Helper()
	ctx := bounded(t, patience)
	errs := make(chan error)
	for i := range number {
		go func() {
			if i%2 == 0 {
				errs <- download(ctx, d, fmt.Sprintf("%s:%d", host, onionSource), int64(10_000+997*i))
			} else {
				errs <- echo(ctx, d, fmt.Sprintf("%s:%d", host, onionEcho), fmt.Sprint("stream ", i))
			}
		}()
	}
	for range number {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// reach has Chive's own client reach the service, too.
func (o *torOnion) reach(ctx context.Context, t *testing.T, nw *lab.Network) {
	t.Helper()
	var took time.Duration
	connects := 10
	if os.Getenv("CHIVE_LONG") != "" {
		connects = 100
	}
	for i := range connects {
		c := nw.Client.Isolated() // a rendezvous of its own
		began := time.Now()
		if err := echo(ctx, c, fmt.Sprintf("%s:%d", o.host, onionEcho), fmt.Sprint("number ", i)); err != nil {
			t.Fatalf("connect %d of %d: %v", i+1, connects, err)
		}
		took += time.Since(began)
	}
	t.Logf("Chive's client: %d connects, %v each", connects, (took / time.Duration(connects)).Round(time.Millisecond))
	began := time.Now()
	if err := download(ctx, nw.Client, fmt.Sprintf("%s:%d", o.host, onionSource), onionBulk()); err != nil {
		t.Error(err)
	}
	t.Logf("Chive's client: %d MiB in %v", onionBulk()>>20, time.Since(began).Round(time.Millisecond))
	onionStreams(t, nw.Client, o.host)
}

// silent checks that neither has warned.
func (o *torOnion) silent(t *testing.T) {
	t.Helper()
	for _, n := range []*ctor.Node{o.service, o.client} {
		warnings, err := n.Warnings(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range warnings {
			t.Errorf("%s: %s", n.Name, w)
		}
	}
}

// TestTorOnionThroughOnlyChive has C tor's client reach an onion service of C tor's
// in a network whose relays and authorities are all Chive's: each is introduction
// point, rendezvous point or directory of the service.
func TestTorOnionThroughOnlyChive(t *testing.T) {
	t.Parallel()
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	testTorOnion(t, onlyChive(t, 0))
}

// TestTorOnionThroughMixedRelays is the same with relays of C tor's among them: their
// links to Chive's carry both halves of a rendezvous.
func TestTorOnionThroughMixedRelays(t *testing.T) {
	t.Parallel()
	testMixedOnion(t, lab.Options{VotingInterval: 5 * time.Minute, CtorRelays: 3, Relays: 3, Exits: 1})
}

// TestTorOnionUnderTorAuthorities has C tor's authorities judge what Chive's relays say
// that they do for onion services.
func TestTorOnionUnderTorAuthorities(t *testing.T) {
	if os.Getenv("CHIVE_LONG") == "" {
		t.Skip("the other tests use the same relays; CHIVE_LONG=1 runs it")
	}
	t.Parallel()
	testMixedOnion(t, lab.Options{VotingInterval: 5 * time.Minute, CtorAuthorities: true, CtorRelays: 1})
}

func testMixedOnion(t *testing.T, opts lab.Options) {
	t.Helper()
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	opts.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	nw, err := lab.Start(bounded(t, patience), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	})
	o := testTorOnion(t, nw)
	for i := range opts.CtorRelays {
		name := fmt.Sprintf("relay%d", i)
		log, err := os.ReadFile(filepath.Join(nw.Dir, "tor", name, "log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range ctor.Warnings(string(log), turnsOf(t, []*ctor.Node{o.service, o.client}, nw.Node(name).Fingerprint)) {
			t.Errorf("%s: %s", name, w)
		}
	}
}

func testTorOnion(t *testing.T, nw *lab.Network) *torOnion {
	t.Helper()
	o := startTorOnion(t, nw)
	ctx := bounded(t, 5*patience)
	o.use(ctx, t)
	o.reach(bounded(t, patience), t, nw)
	t.Run("chive's service", func(t *testing.T) {
		l := serve(t, nw.Client, chive.OnionConfig{Targets: map[int]string{
			onionEcho: shared.target.Addr(target.Echo), onionSource: shared.target.Addr(target.Source)}})
		defer l.Close()
		own := &torOnion{o.service, o.client, l.Address()}
		own.use(ctx, t)
		own.reach(bounded(t, patience), t, nw)
	})
	if err := echo(ctx, socksclient.Dialer{Proxy: nw.SOCKS}, fmt.Sprintf("%s:%d", o.host, onionEcho), "by SOCKS"); err != nil {
		t.Error("Chive's client: ", err)
	}
	o.silent(t)
	return o
}
