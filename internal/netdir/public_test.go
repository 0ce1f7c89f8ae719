package netdir

import (
	"strings"
	"testing"
)

func TestPublic(t *testing.T) {
	n := Public()
	if len(n.Authorities) != 9 || len(n.Fallbacks) != 200 {
		t.Fatalf("%d authorities, %d fallbacks", len(n.Authorities), len(n.Fallbacks))
	}
	seen := map[string]bool{}
	six := 0
	for _, a := range n.Authorities {
		if a.V3Ident.IsZero() || a.RSA.IsZero() || !a.DirPort.IsValid() || len(a.ORPorts) == 0 || seen[a.Nickname] {
			t.Errorf("%+v", a)
		}
		seen[a.Nickname] = true
	}
	for _, f := range n.Fallbacks {
		if f.RSA.IsZero() || !f.ORPorts[0].Addr().Is4() || seen[f.RSA.String()] {
			t.Errorf("%+v", f)
		}
		seen[f.RSA.String()] = true
		six += len(f.ORPorts) - 1
	}
	moria := n.Authorities[0]
	if moria.V3Ident.String() != "F533C81CEF0BC0267857C99B2F471ADF249FA232" || moria.ORPorts[0].String() != "128.31.0.39:9201" || moria.DirPort.String() != "128.31.0.39:9231" {
		t.Errorf("%+v", moria)
	}
	if six == 0 || !n.Testing.EnforceDistinctSubnets || n.Testing.AllowPrivateAddresses {
		t.Errorf("%d IPv6 addresses, %+v", six, n.Testing)
	}
	n.Authorities[0].Nickname = "changed"
	if Public().Authorities[0].Nickname == "changed" {
		t.Error("a caller's change reached the next caller")
	}
}

func TestPublicRefuses(t *testing.T) {
	const id = "F533C81CEF0BC0267857C99B2F471ADF249FA232"
	for _, s := range []string{"relay x", "authority a b", "fallback " + id, "fallback zz 1.2.3.4:5", "fallback " + id + " 1.2.3.4", "authority n " + id + " " + id + " 1.2.3.4 1.2.3.4:5", "from tor 0.4.9.15", "from tor 0.4.9.15 28-10-2026", "from tor a 2026-10-28 x"} {
		if _, _, err := parsePublic(s); err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
