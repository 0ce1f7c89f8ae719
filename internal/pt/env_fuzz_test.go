package pt

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
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
			if !validName(n) {
				t.Fatalf("%q is no name", n)
			}
		}
		if (l.Path == "") == (l.Proxy.Proto == "") {
			t.Fatalf("%q is a program and a proxy, or neither", s)
		}
	})
}

// FuzzEnv reads what Tor tells a server's plugin.
func FuzzEnv(f *testing.F) {
	f.Add("chive-127.0.0.1:0,fte-[::1]:443", "chive:format=words;chive:max-connections=5", "127.0.0.1:9001", "127.0.0.1:9002")
	f.Add("chive-", "chive:a\\=b=c;d", "", "[::1]:1")
	f.Fuzz(func(t *testing.T, bind, opts, or, ext string) {
		m := map[string]string{
			"TOR_PT_MANAGED_TRANSPORT_VER": "1", "TOR_PT_STATE_LOCATION": "x", "TOR_PT_SERVER_TRANSPORTS": "*",
			"TOR_PT_SERVER_BINDADDR": bind, "TOR_PT_SERVER_TRANSPORT_OPTIONS": opts, "TOR_PT_ORPORT": or,
			"TOR_PT_EXTENDED_SERVER_PORT": ext, "TOR_PT_AUTH_COOKIE_FILE": "y",
		}
		e, err := parseEnv(func(k string) string { return m[k] })
		if err != nil {
			return
		}
		if !e.ORPort.IsValid() && !e.ExtORPort.IsValid() {
			t.Fatal("a server without a port to reach")
		}
		for name, a := range e.Options {
			cfg, rest, err := limits(a)
			if err == nil && (cfg.MaxConns < 0 || cfg.MaxMemory < 0 || len(rest) > len(a)) {
				t.Fatalf("%s: %+v of %v", name, cfg, a)
			}
			if strings.Contains(strings.Join(sortedKeys(rest), " "), "max-connections") {
				t.Fatal("a limit is left to the transport")
			}
		}
	})
}
