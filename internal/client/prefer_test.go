package client

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/geoip"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/stream"
)

var four, six = netip.MustParseAddr("203.0.114.7"), netip.MustParseAddr("2606:4700::1")

// bothFamilies is a relay of C tor's that lets port 443 out over IPv4 and IPv6.
func bothFamilies(t *testing.T) netdir.Relay {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile("../netdoc/testdata/ctor/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var l netdir.Loader
	d, _, err := l.Consensus(read("consensus-microdesc"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, _, err = l.Microdescs(d, read("microdescs"), nil); err != nil {
		t.Fatal(err)
	}
	for r := range d.All() {
		if path.Allows(r, path.Dest{Port: 443, Addr: netip.IPv4Unspecified()}, path.Dest{Port: 443, Addr: netip.IPv6Unspecified()}) {
			return r
		}
	}
	t.Fatal("there is none")
	return netdir.Relay{}
}

// TestExitObeysFamily: an exit that connects to an address of the wrong family, or does not say to
// which, has not done what was asked, and others are tried.
func TestExitObeysFamily(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	l.open(bothFamilies(t))
	for _, x := range []struct {
		f  stream.Family
		to netip.Addr
		ok bool
	}{
		{stream.IPv4Only, four, true}, {stream.IPv4Only, six, false}, {stream.IPv4Only, netip.Addr{}, false},
		{stream.IPv6Only, six, true}, {stream.IPv6Only, four, false}, {stream.IPv6Only, netip.Addr{}, false},
		{stream.IPv6First, four, true}, {stream.AnyFamily, six, true}, {stream.AnyFamily, netip.Addr{}, true},
	} {
		m := cell.Connected{Addr: x.to, TTL: 60}
		l.say(cell.RelayConnected, m.Append(nil))
		conn, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 443, Family: x.f})
		if x.ok != (err == nil) || err != nil && (!errors.Is(err, errFamily) || l.asked.Load() != streamTries) {
			t.Errorf("family %d, connected to %v: %v after %d exits", x.f, x.to, err, l.asked.Load())
		}
		if err == nil {
			conn.Close()
		}
	}
}

// TestLookupOfFamily: a lookup returns addresses of the family that was asked for, or those first.
func TestLookupOfFamily(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	both := []netip.Addr{four, six}
	for _, x := range []struct {
		f    stream.Family
		say  []netip.Addr
		want []netip.Addr // nil: no such host
	}{
		{stream.AnyFamily, both, both}, {stream.IPv6First, both, []netip.Addr{six, four}}, {stream.IPv4Only, both, both[:1]}, {stream.IPv6Only, both, both[1:]},
		{stream.IPv4Only, both[1:], nil}, {stream.IPv6Only, both[:1], nil}, {stream.IPv6First, both[:1], both[:1]},
	} {
		var say cell.Resolved
		for _, a := range x.say {
			kind := cell.AnswerIPv4
			if a.Is6() {
				kind = cell.AnswerIPv6
			}
			say = append(say, cell.Answer{Type: kind, Addr: a, TTL: 60})
		}
		body, err := say.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		l.say(cell.RelayResolved, body)
		got, err := c.Resolve(t.Context(), Request{Host: "example.com", Family: x.f})
		var addrs []netip.Addr
		for _, a := range got {
			addrs = append(addrs, a.Addr)
		}
		dns, _ := errors.AsType[*net.DNSError](err)
		if !slices.Equal(addrs, x.want) || (x.want == nil) != (dns != nil && dns.IsNotFound) {
			t.Errorf("family %d of %v: %v, %v", x.f, x.say, addrs, err)
		}
	}
}

// TestStreamsOfTheirOwn: a stream that wants a circuit for itself shares it with no stream before it, at its time
// or after it, of the same key or another, and the circuit ends with it.
func TestStreamsOfTheirOwn(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	m := cell.Connected{Addr: four, TTL: 60}
	l.say(cell.RelayConnected, m.Append(nil))
	seen := map[uint64]bool{}
	dial := func(k isolation.Key) *Conn {
		t.Helper()
		conn, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 443, Key: k})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	shared := dial(isolation.Key{})
	defer shared.Close()
	seen[shared.Circuit()] = true
	for n := range uint64(3) {
		for range 2 { // a number that came twice must not be a way around it
			conn := dial(isolation.Key{Stream: n + 1})
			if seen[conn.Circuit()] {
				t.Errorf("stream %d is on a circuit of another", n+1)
			}
			seen[conn.Circuit()] = true
			defer conn.Close()
		}
	}
	alone := dial(isolation.Key{Stream: 9})
	circ := alone.lease.(*pool.Lease).Circuit
	alone.Close()
	<-circ.Done()
	if again := dial(isolation.Key{}); again.Circuit() != shared.Circuit() {
		t.Error("other streams share no circuit any more")
	} else {
		again.Close()
	}
}

// TestCountryIsKnownFirst: a country that cannot be had is an error before any exit hears of it.
func TestCountryIsKnownFirst(t *testing.T) {
	table, err := geoip.Parse(geoip.Source{Name: "4", Text: strings.NewReader("16777216,16777471,AU\n")}, geoip.Source{Name: "6", Text: strings.NewReader("")})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	var reads int
	read := func() (*geoip.Table, error) {
		if reads++; reads == 1 {
			return nil, broken
		}
		return table, nil
	}
	c, l := withLiars(t, Config{Network: netdir.Public()})
	m := cell.Connected{Addr: four, TTL: 60}
	l.say(cell.RelayConnected, m.Append(nil))
	dial := func(country string) error {
		conn, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 443, Key: isolation.Key{Country: country}})
		if err == nil {
			conn.Close()
		}
		_, lookup := c.Resolve(t.Context(), Request{Host: "example.com", Key: isolation.Key{Country: country}})
		if (err == nil) != !fault.Is(lookup, fault.Config) {
			t.Errorf("%q: a stream %v, a lookup %v", country, err, lookup)
		}
		return err
	}
	refused := func(country, says string) {
		t.Helper()
		if err := dial(country); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), says) || l.asked.Load() != 0 {
			t.Errorf("%q: %v, %d exits", country, err, l.asked.Load())
		}
	}
	refused("au", "nobody knows") // no table
	live := *c.live.Load()
	live.Countries = &Countries{Read: func() (*geoip.Table, error) { return nil, broken }}
	c.live.Store(&live)
	refused("au", "broken")
	live.Countries = &Countries{Read: read}
	if live.Countries.known() {
		t.Error("the table was not needed yet")
	}
	if _, err := live.Countries.exits("au"); !errors.Is(err, broken) {
		t.Error(err)
	}
	refused("zz", "no address is in the country")
	refused("australia", "not a country")
	if err := dial("au"); err != nil || reads != 2 || !live.Countries.known() {
		t.Errorf("%v, the table was read %d times", err, reads)
	}
	if s, err := live.Countries.exits(""); err != nil || !s.IsZero() {
		t.Error("no country is anywhere:", err)
	}
}

// TestReloadKeepsCountries: other settings with the same table keep it and the circuits, after it was needed too. Other files are
// another table, and then other circuits are wanted.
func TestReloadKeepsCountries(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	m := cell.Connected{Addr: four, TTL: 60}
	l.say(cell.RelayConnected, m.Append(nil))
	reads := 0
	reload := func(files string) {
		live := *c.live.Load()
		live.Countries = &Countries{Files: files, Read: func() (*geoip.Table, error) { reads++; return &geoip.Table{}, nil }}
		c.Reload(live)
	}
	circuit := func() uint64 {
		t.Helper()
		conn, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 443})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.circ
	}
	reload("a")
	first := circuit()
	if c.CountryTable() == nil || reads != 1 {
		t.Fatal("the table was not read")
	}
	reload("a")
	if now := circuit(); now != first {
		t.Errorf("circuit %d became %d, and all is as it was", first, now)
	}
	if c.CountryTable(); reads != 1 {
		t.Error("the table was read again")
	}
	reload("b")
	if now := circuit(); now == first {
		t.Error("the circuit stayed after another table")
	}
	if c.CountryTable(); reads != 2 {
		t.Error("the other table was not read")
	}
	reload("")
	reload("")
	if c.CountryTable(); reads != 3 {
		t.Error("a table of unknown files stayed")
	}
}
