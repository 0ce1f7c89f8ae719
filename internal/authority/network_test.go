package authority

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// spare holds the RSA keys of tests that have ended, by their bits: making them is
// most of a test's work.
var spare struct {
	mu   sync.Mutex // guards what follows
	keys map[int][]*rsa.PrivateKey
}

// keyPool returns RSA keys that no other caller has until the test ends. Call it
// before a bubble of virtual time begins.
func keyPool(t testing.TB, bits, n int) []*rsa.PrivateKey {
	t.Helper()
	spare.mu.Lock()
	have := spare.keys[bits]
	k := min(n, len(have))
	out := slices.Clone(have[:k])
	if k > 0 {
		spare.keys[bits] = have[k:]
	}
	spare.mu.Unlock()
	for len(out) < n {
		k, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, k)
	}
	t.Cleanup(func() {
		spare.mu.Lock()
		defer spare.mu.Unlock()
		if spare.keys == nil {
			spare.keys = map[int][]*rsa.PrivateKey{}
		}
		spare.keys[bits] = append(spare.keys[bits], out...)
	})
	return out
}

// testRelay has the keys of a relay.
type testRelay struct {
	keys *netdoc.DescKeys
	desc netdoc.RouterDesc
}

func newTestRelay(t testing.TB, i int, identity, onion *rsa.PrivateKey) *testRelay {
	t.Helper()
	master, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k := netdoc.DescKeys{Identity: identity, Ed: master.Public(), Signing: signing, Onion: onion, NtorSecret: [32]byte{byte(i + 1)}}
	r := &testRelay{keys: netdoc.NewDescKeys(k, master.Sign, time.Now().Add(30*24*time.Hour))}
	r.desc = netdoc.RouterDesc{
		Nickname: fmt.Sprintf("relay%d", i), Addr: netip.AddrFrom4([4]byte{10, byte(i), 0, 1}), ORPort: 9001, Platform: "Tor 0.4.9.11 on Linux",
		Proto: "Link=1-5 Relay=1-4", BandwidthRate: 1 << 30, BandwidthBurst: 1 << 30, BandwidthObserved: uint64(1000 * (100 + 10*i)),
		HSDir: true, TunnelledDir: true, Policy: netdoc.ExitPolicy{{Accept: i%2 == 0, Ports: netdoc.AllPorts}},
	}
	return r
}

func (r *testRelay) sign(t testing.TB) *netdoc.RouterDesc {
	t.Helper()
	d := r.desc
	d.Published = time.Now()
	var err error
	if d.Protocols, err = protover.Parse(d.Proto); err != nil {
		t.Fatal(err)
	}
	out, err := d.Sign(rand.Reader, r.keys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wire connects authorities by pipes.
type wire struct {
	mu   sync.Mutex
	at   map[netip.AddrPort]*Authority
	cut  map[netip.AddrPort]bool // addresses that cannot be reached
	sent int
}

func (w *wire) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.at[addr]
	if a == nil || w.cut[addr] {
		return nil, fault.New(fault.Network, "the address cannot be reached")
	}
	w.sent++
	near, far := net.Pipe()
	go a.dir.Serve(context.WithoutCancel(ctx), &oneConn{Conn: far}) // the error is that there is no second connection
	return near, nil
}

// oneConn is a listener with one connection.
type oneConn struct {
	net.Conn
	taken bool
}

func (c *oneConn) Addr() net.Addr { return c.LocalAddr() }

// Close closes the listener only.
func (c *oneConn) Close() error { return nil }

func (c *oneConn) Accept() (net.Conn, error) {
	if c.taken {
		return nil, net.ErrClosed
	}
	c.taken = true
	return c.Conn, nil
}

// inMemory makes n authorities; change may alter the configuration of each.
func inMemory(t testing.TB, n int, identities, signings []*rsa.PrivateKey, change func(i int, c *Config)) ([]*Authority, *wire) {
	t.Helper()
	w := &wire{at: map[netip.AddrPort]*Authority{}, cut: map[netip.AddrPort]bool{}}
	nw := &netdir.Network{Name: "memory"}
	var cfgs []Config
	for i := range n {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 80)
		now := time.Now().Truncate(time.Second)
		crt, err := netdoc.MakeAuthCert(rand.Reader, identities[i], signings[i], addr, now, now.AddDate(1, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		nw.Authorities = append(nw.Authorities, netdir.Authority{Nickname: fmt.Sprintf("auth%d", i), V3Ident: crt.Identity, RSA: [20]byte{byte(i + 1)}, DirPort: addr})
		cfgs = append(cfgs, Config{
			Nickname: fmt.Sprintf("auth%d", i), Keys: &Keys{Cert: crt, Signing: signings[i]}, Network: nw, DirPort: addr, Dial: w.dial,
			Schedule: Schedule{InitialInterval: time.Second, InitialVoteDelay: 200 * time.Millisecond, InitialDistDelay: 200 * time.Millisecond,
				Interval: 10 * time.Second, VoteDelay: 2 * time.Second, DistDelay: 2 * time.Second},
			Accept: AcceptConfig{AllowPrivateAddresses: true, AssumeReachable: true},
			Flags:  FlagConfig{NoThresholdFloor: true, MinFast: -1},
		})
	}
	var out []*Authority
	for i, cfg := range cfgs {
		if change != nil {
			change(i, &cfg)
		}
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.at[cfg.DirPort] = a
		out = append(out, a)
	}
	return out, w
}

// run runs authorities until the returned function is called.
func run(t testing.TB, all []*Authority) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			if err := a.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// Three authorities publish the same consensus, signed by all, after a second,
// and then in every round, and agree on shared random values at the end of the
// protocol run.
func TestThreeAuthorities(t *testing.T) {
	identities, signings := keyPool(t, 2048, 3), keyPool(t, 2048, 3)
	relayKeys, onion := keyPool(t, 1024, 4), keyPool(t, 1024, 1)[0]
	synctest.Test(t, func(t *testing.T) {
		var relays []*testRelay
		for i, k := range relayKeys {
			relays = append(relays, newTestRelay(t, i, k, onion))
		}
		rounds := map[string][]*netdoc.Consensus{}
		var mu sync.Mutex
		all, _ := inMemory(t, 3, identities, signings, func(_ int, c *Config) {
			c.WaitForRelays = len(relays)
			c.Published = func(c *netdoc.Consensus) {
				mu.Lock()
				defer mu.Unlock()
				key := c.Flavor.String() + c.ValidAfter.String()
				rounds[key] = append(rounds[key], c)
			}
		})
		stop := run(t, all)
		defer stop()
		time.Sleep(300 * time.Millisecond)
		start := time.Now()
		for _, r := range relays {
			d := r.sign(t)
			for _, a := range all {
				if status, words := a.upload(netip.Addr{}, d.Text); status != 200 {
					t.Fatal(words)
				}
			}
		}
		for all[0].Consensus(netdoc.FlavorMicrodesc) == nil && time.Since(start) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("the first consensus came after %v", d)
		}
		time.Sleep(50 * 10 * time.Second) // two runs of the shared randomness protocol
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(rounds) < 2*50 {
			t.Errorf("%d consensuses", len(rounds))
		}
		values := map[[32]byte]bool{}
		for key, list := range rounds {
			if len(list) != 3 || len(list[0].Signatures) != 3 || len(list[0].Routers) != len(relays) {
				t.Fatalf("%s: %d authorities, %d signatures, %d relays", key, len(list), len(list[0].Signatures), len(list[0].Routers))
			}
			for _, c := range list {
				if !bytes.Equal(c.Append(nil), list[0].Append(nil)) {
					t.Errorf("%s: two consensuses", key)
				}
				if v := c.SharedRandCurrent; v != nil && v.Reveals == 3 {
					values[v.Value] = true
				}
			}
		}
		if len(values) == 0 {
			t.Error("no shared random value of three numbers")
		}
	})
}

// While one authority of three is not running, the others continue; after its
// return, it takes part again.
func TestAuthorityAway(t *testing.T) {
	identities, signings := keyPool(t, 2048, 3), keyPool(t, 2048, 3)
	synctest.Test(t, func(t *testing.T) {
		all, w := inMemory(t, 3, identities, signings, nil)
		stop2 := run(t, all[:2])
		time.Sleep(3 * time.Second)
		c, err := netdoc.ParseConsensus(all[0].Consensus(netdoc.FlavorNS), nil, nil)
		if err != nil || len(c.Signatures) != 2 || len(c.Sources) != 2 {
			t.Fatalf("%v: %+v", err, c)
		}
		stop3 := run(t, all[2:])
		// It has no consensus, and so its own schedule at first.
		time.Sleep(40 * time.Second)
		if c, err = netdoc.ParseConsensus(all[0].Consensus(netdoc.FlavorNS), nil, nil); err != nil || len(c.Signatures) != 3 {
			t.Errorf("%v: %d signatures", err, len(c.Signatures))
		}
		// Two authorities are not running: the third publishes nothing, and the
		// consensus grows old.
		stop2()
		for addr := range w.at {
			w.mu.Lock()
			w.cut[addr] = true
			w.mu.Unlock()
		}
		last := all[2].Consensus(netdoc.FlavorNS)
		time.Sleep(2 * time.Minute)
		if !bytes.Equal(last, all[2].Consensus(netdoc.FlavorNS)) {
			t.Error("one authority of three published a consensus")
		}
		stop3()
	})
}

// A restart keeps the state.
func TestRestart(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 2), keyPool(t, 1024, 1)[0]
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		with := func(_ int, c *Config) { c.Dir = dir }
		all, _ := inMemory(t, 1, identities, signings, with)
		stop := run(t, all)
		r := newTestRelay(t, 0, relayKeys[0], onion)
		if status, words := all[0].upload(netip.Addr{}, r.sign(t).Text); status != 200 {
			t.Fatal(words)
		}
		time.Sleep(15 * time.Second)
		stop()
		before := all[0].Consensus(netdoc.FlavorMicrodesc)
		again, _ := inMemory(t, 1, identities, signings, with)
		if !bytes.Equal(before, again[0].Consensus(netdoc.FlavorMicrodesc)) || before == nil {
			t.Error("another consensus")
		}
		if again[0].Relays() != 1 || fmt.Sprint(again[0].sr) != fmt.Sprint(all[0].sr) {
			t.Errorf("%d relays; %v, %v", again[0].Relays(), again[0].sr, all[0].sr)
		}
		// Its identities stay bound to each other.
		thief := newTestRelay(t, 0, relayKeys[0], onion)
		if status, _ := again[0].upload(netip.Addr{}, thief.sign(t).Text); status == 200 {
			t.Error("another Ed25519 identity was taken for an RSA identity")
		}
	})
}

// An upload that is not a valid descriptor of an accepted relay is refused with a
// reason.
func TestUpload(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 5), keyPool(t, 1024, 1)[0]
	synctest.Test(t, func(t *testing.T) {
		bad := newTestRelay(t, 1, relayKeys[1], onion)
		list, err := ParseRelayList([]byte("!reject " + netdoc.RSADigest(&relayKeys[1].PublicKey).String() + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		all, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) { c.Accept.List, c.Accept.MaxRelays = list, 1 })
		a := all[0]
		good := newTestRelay(t, 0, relayKeys[0], onion)
		d := good.sign(t)
		private := newTestRelay(t, 3, relayKeys[3], onion)
		large := *good
		for range 1000 {
			large.desc.Family = append(large.desc.Family, "$"+strings.Repeat("AB", 20))
		}
		future := newTestRelay(t, 4, relayKeys[4], onion)
		fd := future.desc
		fd.Published = time.Now().Add(13 * time.Hour)
		late, err := fd.Sign(rand.Reader, future.keys, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what   string
			body   []byte
			status int
		}{
			{"nothing", nil, 400},
			{"no text", []byte{0xff, 0xfe}, 400},
			{"changed", bytes.Replace(d.Text, []byte("Linux"), []byte("linux"), 1), 400},
			{"rejected", bad.sign(t).Text, 400},
			{"of the future", late.Text, 400},
			{"too large", large.sign(t).Text, 400},
			{"good", d.Text, 200},
			{"again", d.Text, 200},
			{"one too many", private.sign(t).Text, 503},
		} {
			if status, words := a.upload(netip.Addr{}, c.body); status != c.status {
				t.Errorf("%s: %d %s", c.what, status, words)
			}
		}
		time.Sleep(time.Minute)
		newer := good.sign(t)
		if status, words := a.upload(netip.Addr{}, newer.Text); status != 200 {
			t.Error(words)
		}
		if status, _ := a.upload(netip.Addr{}, d.Text); status == 200 {
			t.Error("an older descriptor replaced a newer one")
		}
		a.cfg.Accept.AllowPrivateAddresses = false
		if err := a.judge(newer, time.Now()); err == nil {
			t.Error("a private address was taken")
		}
		a.cfg.Accept.ApprovedOnly = true
		if err := a.judge(newer, time.Now()); err == nil {
			t.Error("a relay was taken that is not approved")
		}
	})
}
