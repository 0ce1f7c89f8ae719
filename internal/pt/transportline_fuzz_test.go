package pt

import (
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
)

// FuzzTransportLine reads what a torrc or a flag says of a transport.
func FuzzTransportLine(f *testing.F) {
	f.Add("ClientTransportPlugin chive,fte exec /usr/bin/chive --x")
	f.Add("obfs4 socks5 127.0.0.1:9000")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseTransportLine(s)
		if err != nil {
			if !fault.Is(err, fault.Config) || len(err.Error()) > 300 {
				t.Fatal(err)
			}
			return
		}
		for _, n := range l.Transports {
			if !ptspec.ValidName(n) {
				t.Fatalf("%q is no name", n)
			}
		}
		if (l.Path == "") == (l.Proxy.Proto == "") {
			t.Fatalf("%q is a program and a proxy, or neither", s)
		}
	})
}
