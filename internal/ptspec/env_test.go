package ptspec

import (
	"maps"
	"net/netip"
	"testing"
)

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func TestEnv(t *testing.T) {
	ok := map[string]string{
		"TOR_PT_MANAGED_TRANSPORT_VER": "1,2", "TOR_PT_STATE_LOCATION": "/x", "TOR_PT_EXIT_ON_STDIN_CLOSE": "1",
		"TOR_PT_SERVER_TRANSPORTS": "chive,fte", "TOR_PT_SERVER_BINDADDR": "chive-127.0.0.1:1984,fte-[::1]:4891",
		"TOR_PT_ORPORT": "127.0.0.1:9001", "TOR_PT_EXTENDED_SERVER_PORT": "127.0.0.1:4200", "TOR_PT_AUTH_COOKIE_FILE": "/c",
		"TOR_PT_SERVER_TRANSPORT_OPTIONS": "chive:format=words",
	}
	e, err := ParseEnv(env(ok))
	if err != nil || e.Client || !e.ExitOnStdinClose || e.BindAddrs["fte"] != netip.MustParseAddrPort("[::1]:4891") ||
		e.Options["chive"]["format"] != "words" || e.ORPort.Port() != 9001 || e.ExtORPort.Port() != 4200 {
		t.Fatalf("%+v, %v", e, err)
	}
	for k, v := range map[string]string{
		"TOR_PT_MANAGED_TRANSPORT_VER": "2", "TOR_PT_STATE_LOCATION": "", "TOR_PT_SERVER_TRANSPORTS": "",
		"TOR_PT_CLIENT_TRANSPORTS": "chive", "TOR_PT_SERVER_BINDADDR": "chive", "TOR_PT_ORPORT": "localhost:1",
		"TOR_PT_AUTH_COOKIE_FILE": "", "TOR_PT_SERVER_TRANSPORT_OPTIONS": "chive",
	} {
		bad := maps.Clone(ok)
		bad[k] = v
		if _, err := ParseEnv(env(bad)); err == nil {
			t.Errorf("%s=%q is accepted", k, v)
		}
	}
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
		e, err := ParseEnv(func(k string) string { return m[k] })
		if err != nil {
			return
		}
		if !e.ORPort.IsValid() && !e.ExtORPort.IsValid() {
			t.Fatal("a server without a port to reach")
		}
	})
}
