package pt

import (
	"log/slog"
	"testing"

	"github.com/chivenet/chive/internal/ptspec"
)

func TestMessages(t *testing.T) {
	m, err := parseMessage(`LOG SEVERITY=warning MESSAGE="a \"b\"\n\101 \\"`)
	if err != nil || m.level != slog.LevelWarn || m.text != "a \"b\"\nA \\" {
		t.Errorf("%+v %v", m, err)
	}
	m, err = parseMessage(`SMETHOD obfs4 198.51.100.1:443 OTHER:x ARGS:cert=a\,b,iat-mode=0`)
	if err != nil || m.method.Args["cert"] != "a,b" || m.method.Args["iat-mode"] != "0" || m.method.Addr.Port() != 443 {
		t.Errorf("%+v %v", m, err)
	}
	m, err = parseMessage(`STATUS TRANSPORT=obfs4 ADDRESS=198.51.100.123:1234 CONNECT=Failed ERRSTR="Connection refused"`)
	if err != nil || m.fields["ERRSTR"] != "Connection refused" {
		t.Errorf("%+v %v", m, err)
	}
	for in, want := range map[string]string{
		"dial tcp 192.0.2.1:443: refused":   "dial tcp [scrubbed]: refused",
		"to [2001:db8::1]:443 and 10.0.0.1": "to [scrubbed] and [scrubbed]",
		"version 1.2.3, 12:30":              "version 1.2.3, 12:30",
	} {
		if got := ptspec.Scrub(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		"VERSION 1", "CMETHOD trebuchet socks5 127.0.0.1:19999", "CMETHODS DONE", "PROXY DONE", "ENV-ERROR x",
		"SMETHOD trebuchet 198.51.100.1:19999 ARGS:a=b,c=d", "SMETHOD-ERROR t no", `LOG SEVERITY=debug MESSAGE="x\n"`,
		`STATUS TRANSPORT=obfs4 CONNECT=Success`, "VERSION-ERROR no-version", "PROXY-ERROR SOCKS 4",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseMessage(s)
		if err != nil {
			return
		}
		if m.keyword == "CMETHOD" || m.keyword == "SMETHOD" {
			if !ptspec.ValidName(m.name) || !m.method.Addr.IsValid() || m.method.Addr.Port() == 0 || (m.keyword == "CMETHOD") == (m.method.Proto == "") {
				t.Fatalf("%+v", m)
			}
		}
	})
}
