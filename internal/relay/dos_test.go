package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/pace"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// identity makes a relay's keys.
func identity(t *testing.T) *Keys {
	t.Helper()
	keys, err := LoadKeys(t.TempDir(), time.Now(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// connectAs makes a user whose link proves the identity of keys.
func (v *victim) connectAs(t *testing.T, keys *Keys) *user {
	t.Helper()
	m := channel.NewManager(&channel.Config{Log: userEnv.Log, Now: time.Now}, &channel.LinkConfig{Rand: rand.Reader, Identity: keys.Link()}, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", a.String())
	})
	t.Cleanup(m.Close)
	ch, err := m.Get(within(t), v.Target())
	if err != nil {
		t.Fatal(err)
	}
	return &user{t, v, ch}
}

// flood asks for n circuits of the cheapest kind and returns how many were made.
func (u *user) flood(n int) int64 {
	u.t.Helper()
	var y tally
	for i := range n {
		c, err := u.ch.Open(&y, nil)
		if err == nil {
			err = c.SendControl(cell.CmdCreateFast, make([]byte, cell.CreateFastLen))
		}
		if err != nil {
			u.t.Fatal(err)
		}
		for ctx := within(u.t); y.created.Load()+y.destroyed.Load() < int64(i-200) || i == n-1 && y.created.Load()+y.destroyed.Load() < int64(n); {
			if ctx.Err() != nil {
				u.t.Fatalf("of %d circuits %d were made, %d refused", n, y.created.Load(), y.destroyed.Load())
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
	}
	return y.created.Load()
}

// TestSelfMadeIdentity: a peer with an identity that the consensus does not list
// is limited like any other, and lifts no limit of its address; a relay that the
// consensus lists is not limited.
func TestSelfMadeIdentity(t *testing.T) {
	v := startVictim(t, nil, func(r *Relay) {
		r.dos.params = dosParams{circuits: true, circuitConns: 2, circuitPace: pace.Limit{Rate: 1e-9, Burst: 50}, circuitBan: time.Hour}
	})
	mean, client := v.connectAs(t, identity(t)), v.connect(t, nil)
	if n := mean.flood(200); n != 50 {
		t.Errorf("%d circuits by a self-made identity", n)
	}
	if n := client.flood(100); n != 0 {
		t.Errorf("%d circuits of the same address after that", n)
	}
}

// TestListedRelayIsExempt: a link that proves a listed identity does not count
// for its address, and its circuits are not limited.
func TestListedRelayIsExempt(t *testing.T) {
	keys := identity(t)
	v := startVictim(t, nil, func(r *Relay) {
		r.dos.params = dosParams{circuits: true, circuitConns: 1, circuitPace: pace.Limit{Rate: 1e-9, Burst: 50}, circuitBan: time.Hour}
		r.dos.ids = map[ident.RSAID]bool{keys.ID.RSA: true}
	})
	u := v.connectAs(t, keys)
	if n := u.flood(300); n != 300 {
		t.Errorf("%d circuits of a listed relay", n)
	}
	v.dos.mu.Lock()
	n := v.dos.peers[netaddr.Peer(netip.MustParseAddr("127.0.0.1"))].conns
	v.dos.mu.Unlock()
	if n != 0 {
		t.Errorf("%d connections are counted", n)
	}
	if n := v.connect(t, nil).flood(100); n != 50 {
		t.Errorf("%d circuits of a client at its address", n)
	}
}

// TestCrowdAtRelaysAddress: connections from a relay's address may do the link
// handshake; after it, those that are not the relay's are bounded.
func TestCrowdAtRelaysAddress(t *testing.T) {
	v := startVictim(t, nil, func(r *Relay) {
		r.dos.params = dosParams{conns: true, connMax: 3, connPace: pace.Limit{Rate: 1e-9, Burst: 1}, connBan: time.Hour}
		r.dos.addrs = map[netip.Addr]bool{netip.MustParseAddr("127.0.0.1"): true}
	})
	for range 3 {
		v.connect(t, nil).use()
	}
	select {
	case <-v.connect(t, nil).ch.Done():
	case <-within(t).Done():
		t.Error("a fourth link stays open")
	}
}

// TestStrangersCircuits: the number of circuits of a stranger's link is bounded.
func TestStrangersCircuits(t *testing.T) {
	v := startVictim(t, nil)
	if n := v.connect(t, nil).flood(maxStrangerCircs + 500); n != maxStrangerCircs {
		t.Errorf("%d circuits over one link", n)
	}
	v.connect(t, nil).use()
}

// TestDefenseTypes: a consensus turns a defence off with its type, too.
func TestDefenseTypes(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 3, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []bool{false, true} {
		var params string
		for _, name := range []string{"CircuitCreation", "Connection", "StreamCreation"} {
			if off {
				params += " DoS" + name + "DefenseType=1"
			}
			params += " DoS" + name + "Enabled=1"
		}
		var l netdir.Loader
		d, _, err := l.Consensus(bytes.Replace(made.Consensus, []byte("\nparams"), []byte("\nparams"+params), 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		if p := dosParamsOf(d, false); p.circuits == off || p.conns == off || (p.streams == nil) != off {
			t.Errorf("type 1: %v; circuits %v, connections %v, streams %v", off, p.circuits, p.conns, p.streams)
		}
	}
}

// TestBridgeLimitsNoAddress: many users of a bridge may share an address, behind a
// provider's network address translation or a transport that tells only its own.
func TestBridgeLimitsNoAddress(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 3, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	params := "\nparams DoSCircuitCreationBurst=5 DoSCircuitCreationEnabled=1 DoSCircuitCreationMinConnections=1 DoSCircuitCreationRate=1" +
		" DoSConnectionEnabled=1 DoSConnectionMaxConcurrentCount=2"
	var l netdir.Loader
	d, _, err := l.Consensus(bytes.Replace(made.Consensus, []byte("\nparams"), []byte(params), 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	const circuits = 50
	for _, bridge := range []bool{false, true} {
		v := startVictim(t, func(c *Config) {
			if c.Bridge = bridge; bridge {
				c.Exit = nil
			}
		}, func(r *Relay) { r.dos.update(d) })
		if n := v.connect(t, nil).flood(circuits); (n == circuits) != bridge {
			t.Errorf("bridge: %v; %d circuits", bridge, n)
		}
		v.connect(t, nil)
		if bridge {
			v.connect(t, nil).circuit()
		}
	}
}
