package pt

import (
	"net/netip"
	"slices"
	"testing"
)

// TestChosenPort: each transport has an address in the environment, as from C tor, and one
// that chose its port gets that port when its process is started again.
func TestChosenPort(t *testing.T) {
	told := map[string]netip.AddrPort{}
	a, b, c := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("[::]:2"), netip.MustParseAddrPort("[::]:3")
	p := &Process{changed: make(chan struct{}), methods: map[string]Method{}, cfg: ProcessConfig{Transports: []string{"a", "b"}, Server: &Server{
		Bind: map[string]netip.AddrPort{"a": a}, Chose: func(name string, addr netip.AddrPort) { told[name] = addr },
	}}}
	want := func(line string) {
		t.Helper()
		if !slices.Contains(p.env(nil), "TOR_PT_SERVER_BINDADDR="+line) {
			t.Error(p.env(nil))
		}
	}
	want("a-127.0.0.1:1,b-0.0.0.0:0")
	for _, at := range []netip.AddrPort{b, b, c} {
		for _, name := range []string{"a", "b"} {
			if err := p.heard(&message{keyword: "SMETHOD", name: name, method: Method{Addr: at}}); err != nil {
				t.Fatal(err)
			}
		}
		want("a-127.0.0.1:1,b-" + at.String())
		if len(told) != 1 || told["b"] != at {
			t.Error(told)
		}
	}
}
