package authority

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// orPorts are ORPorts in memory, of honest relays only. A connection to any other
// address never gets an answer.
type orPorts struct {
	mu    sync.Mutex
	at    map[netip.AddrPort]*channel.RelayKeys
	fail  error // of every dial; nil: none
	dials map[netip.AddrPort]int
	open  atomic.Int64 // connections to addresses without a relay
	most  atomic.Int64
}

func (o *orPorts) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	o.mu.Lock()
	keys, fail := o.at[addr], o.fail
	o.dials[addr]++
	o.mu.Unlock()
	switch {
	case fail != nil:
		return nil, fail
	case keys == nil:
		o.most.Store(max(o.most.Load(), o.open.Add(1)))
		defer o.open.Add(-1)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	near, far := net.Pipe()
	go func() {
		l, err := channel.Accept(context.WithoutCancel(ctx), far, &channel.LinkConfig{Identity: keys, Addrs: []netip.Addr{addr.Addr()}})
		if err == nil {
			l.Conn.NetConn().Close()
		}
	}()
	return near, nil
}

func (o *orPorts) set(addr netip.AddrPort, k *channel.RelayKeys) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at[addr] = k
}

func (o *orPorts) failing(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail = err
}

// honest makes a relay that answers, whose RSA key is given.
func (o *orPorts) honest(t *testing.T, n int, key *rsa.PrivateKey) *netdoc.RouterDesc {
	t.Helper()
	identity, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	k, err := channel.NewRelayIdentity(key, identity, signing, now.Add(30*24*time.Hour)).NewRelayKeys(rand.Reader, now)
	if err != nil {
		t.Fatal(err)
	}
	d := descOf(k.ID, netip.AddrFrom4([4]byte{192, 0, 2, byte(n + 1)}))
	o.set(netip.AddrPortFrom(d.Addr, d.ORPort), k)
	return d
}

// descOf makes a descriptor with the fields that the authority needs, as if it
// were signed.
func descOf(id ident.RelayID, addr netip.Addr) *netdoc.RouterDesc {
	return &netdoc.RouterDesc{Nickname: "x", RSA: id.RSA, Ed: id.Ed, Addr: addr, ORPort: 9001, OnionKey: []byte{1}, Published: time.Now(),
		Digest: [20]byte(id.RSA), Text: make([]byte, 3000)}
}

// blackHole makes the descriptor of a relay that does not exist.
func blackHole(n int) *netdoc.RouterDesc {
	var id ident.RelayID
	id.RSA[0], id.Ed[0] = 0xbb, 0xbb
	binary.BigEndian.PutUint32(id.RSA[16:], uint32(n))
	binary.BigEndian.PutUint32(id.Ed[28:], uint32(n))
	return descOf(id, netip.AddrFrom4([4]byte{20, byte(n >> 8), byte(n), 1}))
}

// tester makes an authority that tests relays, which the test adds.
func tester(t *testing.T, identities, signings []*rsa.PrivateKey, o *orPorts, change func(*Config)) *Authority {
	t.Helper()
	o.at, o.dials = map[netip.AddrPort]*channel.RelayKeys{}, map[netip.AddrPort]int{}
	all, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) {
		c.Accept, c.Dial = AcceptConfig{}, o.dial
		if change != nil {
			change(c)
		}
	})
	return all[0]
}

// testing runs an authority's tests until the returned function is called.
func (a *Authority) testing(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.testReachability(ctx); err != nil {
			t.Error(err)
		}
	}()
	return func() { cancel(); <-done }
}

func (a *Authority) add(d *netdoc.RouterDesc, from netip.Addr) error {
	return a.addDescriptor(d, nil, from, time.Now())
}

func (a *Authority) isRunning(d *netdoc.RouterDesc) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.relays.byRSA[d.RSA]
	return r != nil && a.runningLocked(r, time.Now())
}

// within waits for something to become true, on virtual time.
func within(t *testing.T, d time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !is(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("after %v: not %s", d, what)
		}
	}
}

// TestBlackHoles: 3,000 relays that never answer do not harm those that do: these
// keep the Running flag, and a new one gets it soon.
func TestBlackHoles(t *testing.T) {
	silent := 3000
	if testing.Short() {
		silent = 300 // the race detector sees no more with more
	}
	identities, signings, keys := keyPool(t, 2048, 1), keyPool(t, 2048, 1), keyPool(t, 1024, 22)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, nil)
		stop := a.testing(t)
		defer stop()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		var honest []*netdoc.RouterDesc
		for i, k := range keys[:20] {
			d := o.honest(t, i, k)
			must(a.add(d, d.Addr))
			honest = append(honest, d)
		}
		within(t, time.Minute, "all Running", func() bool {
			return !slices.ContainsFunc(honest, func(d *netdoc.RouterDesc) bool { return !a.isRunning(d) })
		})
		for n := range silent { // 30 uploaded from each address
			must(a.add(blackHole(n), netip.AddrFrom4([4]byte{9, byte(n / 30), 0, 1})))
		}
		// New relays from an unused network, and from a network of the attackers.
		late := []*netdoc.RouterDesc{o.honest(t, 20, keys[20]), o.honest(t, 21, keys[21])}
		must(a.add(late[0], late[0].Addr))
		must(a.add(late[1], netip.MustParseAddr("9.7.0.1")))
		begin := time.Now()
		within(t, 5*time.Minute, "Running", func() bool { return a.isRunning(late[0]) })
		t.Logf("a new relay is Running after %v", time.Since(begin))
		within(t, time.Hour, "Running", func() bool { return a.isRunning(late[1]) })
		for range 3 * 60 {
			time.Sleep(time.Minute)
			for i, d := range append(honest, late[0]) {
				if !a.isRunning(d) {
					t.Fatalf("after %v relay %d is not Running", time.Since(begin), i)
				}
			}
		}
		if n := o.most.Load(); n > strangersAtOnce {
			t.Errorf("%d tests of strangers at once", n)
		}
		if len(a.pins.rsa) != 22 || len(a.histories.Of) != 22 {
			t.Errorf("%d pins and %d histories, of 22 relays", len(a.pins.rsa), len(a.histories.Of))
		}
	})
}

// TestRelayThatWentDark: known relays that all stop answering at once do not
// delay the others' tests, and lose the Running flag.
func TestRelayThatWentDark(t *testing.T) {
	identities, signings, keys := keyPool(t, 2048, 1), keyPool(t, 2048, 1), keyPool(t, 1024, 2)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, nil)
		var dark []*netdoc.RouterDesc
		a.mu.Lock()
		for n := range 2000 { // as if they had answered
			d := blackHole(n)
			r := newRelay(d, d.Addr, time.Now())
			r.probes[ipv4].reached, r.probes[ipv4].tried = time.Now(), time.Now()
			a.relays.put(r)
			dark = append(dark, d)
		}
		a.mu.Unlock()
		d := o.honest(t, 0, keys[0])
		if err := a.add(d, d.Addr); err != nil {
			t.Fatal(err)
		}
		stop := a.testing(t)
		defer stop()
		within(t, time.Minute, "Running", func() bool { return a.isRunning(d) })
		for range 60 {
			time.Sleep(time.Minute)
			if !a.isRunning(d) {
				t.Fatal("the honest relay is not Running")
			}
		}
		for i, d := range dark {
			if a.isRunning(d) {
				t.Fatalf("relay %d, which never answered, is Running", i)
			}
		}
		o.mu.Lock()
		o.at = map[netip.AddrPort]*channel.RelayKeys{}
		o.mu.Unlock()
		within(t, reachableFor+2*time.Minute, "down", func() bool { return !a.isRunning(d) })
	})
}

// TestLateTests: a relay that was not tested, because this machine lacked time or
// file descriptors, keeps the Running flag and is tested again.
func TestLateTests(t *testing.T) {
	identities, signings, keys := keyPool(t, 2048, 1), keyPool(t, 2048, 1), keyPool(t, 1024, 1)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, nil)
		d := o.honest(t, 0, keys[0])
		if err := a.add(d, d.Addr); err != nil {
			t.Fatal(err)
		}
		stop := a.testing(t)
		within(t, time.Minute, "Running", func() bool { return a.isRunning(d) })
		stop()
		time.Sleep(5 * time.Hour) // asleep
		if !a.isRunning(d) {
			t.Error("not Running, though no test has failed")
		}
		o.failing(&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)})
		stop = a.testing(t)
		defer stop()
		time.Sleep(3 * time.Hour)
		if !a.isRunning(d) {
			t.Error("not Running for want of files here")
		}
		o.mu.Lock()
		n := o.dials[netip.AddrPortFrom(d.Addr, d.ORPort)]
		o.mu.Unlock()
		if n > 1+int(3*time.Hour/testIdle)+1 {
			t.Errorf("%d dials", n)
		}
		o.failing(fault.New(fault.Network, "no route"))
		within(t, time.Hour, "down", func() bool { return !a.isRunning(d) })
		o.failing(nil)
		within(t, 3*time.Hour+time.Minute, "up again", func() bool { return a.isRunning(d) })
	})
}

// TestFamiliesApart: IPv4 and IPv6 are tested at the same time, and the result
// of one does not wait for the other's.
func TestFamiliesApart(t *testing.T) {
	identities, signings, keys := keyPool(t, 2048, 1), keyPool(t, 2048, 1), keyPool(t, 1024, 1)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, func(c *Config) { c.Accept.IPv6 = true })
		d := o.honest(t, 0, keys[0])
		six := netip.MustParseAddrPort("[2001:db8::1]:9001")
		d.ORAddrs = []netip.AddrPort{six}
		if err := a.add(d, d.Addr); err != nil {
			t.Fatal(err)
		}
		stop := a.testing(t)
		defer stop()
		time.Sleep(testLimit / 2)
		a.mu.Lock()
		p := a.relays.byRSA[d.RSA].probes
		if p[ipv4].reached.IsZero() || p[ipv4].testing || !p[ipv6].testing {
			t.Errorf("IPv4: %+v, IPv6: %+v", p[ipv4], p[ipv6])
		}
		a.mu.Unlock()
		time.Sleep(testLimit)
		if a.isRunning(d) {
			t.Error("Running, though its IPv6 port does not answer")
		}
		o.mu.Lock()
		o.at[six] = o.at[netip.AddrPortFrom(d.Addr, d.ORPort)]
		o.mu.Unlock()
		within(t, 30*time.Minute, "Running", func() bool { return a.isRunning(d) })
	})
}
