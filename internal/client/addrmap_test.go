package client

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
)

func TestAddrMap(t *testing.T) {
	m, err := ParseAddrMap([]string{
		"www.example.com 192.0.2.1", "WWW.example.com. www.example.net", // the later one counts
		"*.example.org *.mirror.example.net", "special.example.org [2001:db8::1]",
		"*.example.info www.example.info", "*.a.example.info b.example",
		"1.1.1.1 2.2.2.2", "2.2.2.2 3.3.3.3", "::ffff:4.4.4.4 onion.example",
		"onion.example duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad.onion",
	})
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"www.example.com": "www.example.net", "WWW.Example.Com.": "www.example.net", "example.com": "example.com", "x.www.example.com": "x.www.example.com",
		"example.org": "mirror.example.net", "a.b.example.org": "a.b.mirror.example.net", "special.example.org": "2001:db8::1", "x.special.example.org": "x.special.mirror.example.net",
		"myexample.org": "myexample.org", "org": "org",
		"example.info": "www.example.info", "x.example.info": "www.example.info", "www.example.info": "www.example.info", "x.a.example.info": "b.example", "a.example.info": "b.example",
		"1.1.1.1": "3.3.3.3", "::ffff:1.1.1.1": "3.3.3.3", "2.2.2.2": "3.3.3.3", "3.3.3.3": "3.3.3.3", "1.1.1.2": "1.1.1.2", "x.1.1.1.1": "x.1.1.1.1",
		"4.4.4.4":       "duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad.onion",
		"Other.Example": "Other.Example", // untouched
	} {
		if got, err := m.Of(from); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", from, got, err, want)
		}
	}
	long := strings.Repeat("a.", 120) + "example.org"
	if _, err := m.Of(long); !fault.Is(err, fault.Config) {
		t.Errorf("a name that becomes too long: %v", err)
	}
	var none *AddrMap
	if got, err := none.Of("X."); err != nil || got != "X." {
		t.Error(got, err)
	}
	for want, rules := range map[string][]string{
		"is not \"FROM TO\"":         {"a"},
		"entry 2: it is not":         {"a b", "a b c"},
		"a whole domain":             {"a.example *.b.example"},
		"nothing below it":           {"*.192.0.2.1 a"},
		"neither a host name":        {"*ample.com a"},
		"\"a:80\" is neither":        {"a:80 b"},
		"choose an exit":             {"a b.exit"},
		"in a circle":                {"a b", "b c", "c a"},
		"lead in a circle, or go on": {"*.a.example *.b.a.example"},
		"a circle, or":               {"*.a.example x.b.example", "*.b.example y.a.example"},
	} {
		if _, err := ParseAddrMap(rules); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", rules, err, want)
		}
	}
}

func FuzzAddrMap(f *testing.F) {
	f.Add("*.a *.b", "b 192.0.2.1", "x.a")
	f.Fuzz(func(t *testing.T, one, two, host string) {
		m, err := ParseAddrMap([]string{one, two})
		if err != nil {
			return
		}
		to, err := m.Of(host)
		if err != nil || to == host {
			return
		}
		if again, err := m.Of(to); err != nil || plainHost(again) != to {
			t.Fatalf("%q became %q, and that %q (%v)", host, to, again, err)
		}
	})
}

// TestMapped: a name that stands for an address is looked up without an exit, and a name
// that stands for an onion service goes to no exit.
func TestMapped(t *testing.T) {
	m, err := ParseAddrMap([]string{"a.example 192.0.2.1", "b.example x.onion", "c.example 127.0.0.1", "y.onion d.example"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Network: netdir.Public(), Live: Live{Map: m}, Dial: refuse}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := c.Resolve(t.Context(), Request{Host: "A.example."})
	if err != nil || len(got) != 1 || got[0].Addr != netip.MustParseAddr("192.0.2.1") || got[0].TTL != mappedTTL {
		t.Errorf("%v %v", got, err)
	}
	if _, err := c.Resolve(t.Context(), Request{Host: "b.example"}); !fault.Is(err, fault.Refused) {
		t.Errorf("an onion service has an address: %v", err)
	}
	if _, err := c.Dial(t.Context(), Request{Host: "b.example", Port: 80}); err == nil || !strings.Contains(err.Error(), "onion") {
		t.Errorf("an onion service: %v", err)
	}
	if _, err := c.Dial(t.Context(), Request{Host: "c.example", Port: 80}); !fault.Is(err, fault.Refused) {
		t.Errorf("a private address: %v", err)
	}
	// A port's flags are about the host that another one stands for.
	barred := errors.New("barred")
	addresses := func(host string) error {
		if isAddr(host) {
			return barred
		}
		return nil
	}
	onions := func(host string) error {
		if strings.HasSuffix(host, ".onion") {
			return nil
		}
		return barred
	}
	for _, x := range []struct {
		host   string
		permit func(string) error
		barred bool
	}{{"a.example", addresses, true}, {"a.example", onions, true}, {"b.example", addresses, false}, {"b.example", onions, false}, {"y.onion", onions, true}} {
		req := Request{Host: x.host, Port: 80, Permit: x.permit}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // who is not barred waits for a directory
		_, err := c.Dial(ctx, req)
		_, again := c.Resolve(ctx, req)
		cancel()
		if errors.Is(err, barred) != x.barred || errors.Is(again, barred) != x.barred {
			t.Errorf("%s: %v; looked up: %v", x.host, err, again)
		}
	}
	c.Reload(Live{}) // without the map
	if _, err := c.Dial(t.Context(), Request{Host: "b.example.exit", Port: 80}); !fault.Is(err, fault.Refused) {
		t.Error(err)
	}
}
