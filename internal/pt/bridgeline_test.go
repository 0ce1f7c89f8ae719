package pt

import (
	"maps"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
)

const fp = "0123456789ABCDEF0123456789ABCDEF01234567"

func TestBridgeLine(t *testing.T) {
	for in, want := range map[string]string{
		"Bridge 192.0.2.1:443":             "192.0.2.1:443",
		"192.0.2.1":                        "192.0.2.1:443",
		"bridge [2001:db8::1]:9001 $" + fp: "[2001:db8::1]:9001 " + fp,
		"obfs4 192.0.2.1:1 " + fp + " iat-mode=0 cert=AB/c+=":  "obfs4 192.0.2.1:1 " + fp + " cert=AB/c+= iat-mode=0",
		"  snowflake  192.0.2.3:80  url=https://x/?a=b;c=d  ":  "snowflake 192.0.2.3:80 url=https://x/?a=b;c=d",
		"obfs4 [::ffff:192.0.2.1]:1 " + strings.ToLower(fp):    "obfs4 192.0.2.1:1 " + fp,
		"meek_lite 0.0.2.0:2 " + fp + " front=a.example utls=": "meek_lite 0.0.2.0:2 " + fp + " front=a.example utls=",
	} {
		l, err := ParseBridgeLine(in)
		if err != nil || l.String() != want {
			t.Errorf("%q: %q, %v", in, l.String(), err)
		}
	}
	for _, bad := range []string{
		"", "Bridge", "obfs4", "example.com:443", "192.0.2.1:0", "192.0.2.1:443 " + fp[1:], "192.0.2.1:443 " + fp + " k=v", "obfs4 192.0.2.1:1 " + fp + " k",
		"obfs4 192.0.2.1:1 k=v " + fp, "obfs4 192.0.2.1:1 k=v k=w", "obfs4 192.0.2.1:1 k=" + strings.Repeat("v", ptspec.MaxClientText), "[fe80::1%eth0]:1",
		"192.0.2.1:443 " + strings.Repeat("0", 40), "obfs4 192.0.2.1:1 =v",
	} {
		if l, err := ParseBridgeLine(bad); !fault.Is(err, fault.Config) {
			t.Errorf("%q is %v, %v", bad, l, err)
		}
	}
	tl, err := ParseTransportLine("ClientTransportPlugin obfs3,obfs4 exec /usr/bin/obfs4proxy -enableLogging")
	if err != nil || len(tl.Transports) != 2 || tl.Path != "/usr/bin/obfs4proxy" || tl.Args[0] != "-enableLogging" {
		t.Errorf("%+v %v", tl, err)
	}
	if tl, err = ParseTransportLine("x socks4 127.0.0.1:5"); err != nil || tl.Proxy.Proto != "socks4" || tl.Proxy.Addr.Port() != 5 {
		t.Errorf("%+v %v", tl, err)
	}
	for _, bad := range []string{"", "x exec", "x, exec /p", "x socks5 host:1", "x socks5 127.0.0.1:1 y", "x proxy 127.0.0.1:1"} {
		if _, err := ParseTransportLine(bad); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzBridgeLine(f *testing.F) {
	f.Add("Bridge obfs4 192.0.2.1:1 " + fp + " cert=a iat-mode=0")
	f.Add("[2001:db8::1]:443 $" + fp)
	f.Add("192.0.2.1")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseBridgeLine(s)
		if err != nil {
			return
		}
		again, err := ParseBridgeLine(l.String())
		if err != nil || again.String() != l.String() || !maps.Equal(again.Args, l.Args) || again.Fingerprint != l.Fingerprint {
			t.Fatalf("%q: %q, then %q (%v)", s, l, again, err)
		}
	})
}
