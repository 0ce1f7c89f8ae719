package exit

import (
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// TestNamesForTheServer: of what a client wants to connect to, or to look up, only host
// names reach the name server.
func TestNamesForTheServer(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]bool{}
	server := serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		mu.Lock()
		asked[strings.ToLower(m.Question[0].Name)] = true
		mu.Unlock()
		m.Rcode = dns.RcodeNameError
		_ = w.WriteMsg(m)
	})
	cfg := accept(t, "accept *:*")
	cfg.Nameservers[0] = server
	_, c := setup(t, cfg, nil)
	for _, name := range []string{"a;b.test", "a/b.test", "a%00.test", `a\.test`, `a\032b.test`, "$(id).test", "<a>.test", "a..test", ".test", "'a'.test", "@", strings.Repeat("a", 64) + ".test", "a%.in-addr.arpa", "*.7.2.0.192.in-addr.arpa"} {
		_, err := dial(t, c, name, 80)
		wantEnd(t, err, cell.EndResolveFailed)
		if got := ask(t, c, name+"\x00"); len(got) != 1 || got[0].Type != cell.AnswerError {
			t.Errorf("%q: %v", name, got)
		}
	}
	mu.Lock()
	if len(asked) != 0 {
		t.Errorf("the server was asked for %v", asked)
	}
	mu.Unlock()
	for _, name := range []string{"a_b.test", "A-1.test", "9.test"} {
		_, err := dial(t, c, name, 80)
		wantEnd(t, err, cell.EndResolveFailed)
		ask(t, c, name+".\x00")
	}
	if mu.Lock(); len(asked) != 3 {
		t.Errorf("the server was asked for %v", asked)
	}
	mu.Unlock()
}

// TestNamesForClients: of what the owner of an address calls it, a client hears only host
// names.
func TestNamesForClients(t *testing.T) {
	for name, want := range map[string]string{
		"host.test.": "host.test", "_a.host.test.": "_a.host.test", // as they are
		`a\;b.test.`: "", `a\032b.test.`: "", `a\000.test.`: "", `a\255.test.`: "", `\"a.test.`: "", `a\\b.test.`: "", `a\/b.test.`: "", "-rf.test.": "", ".": "", `\010a.test.`: "",
	} {
		server := serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
			m.Answer = append(m.Answer, &dns.PTR{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: 60}, Ptr: name})
			if err := w.WriteMsg(m); err != nil {
				t.Error(name, err)
			}
		})
		a, err := testResolver(t, server).reverse(t.Context(), "7.2.0.192.in-addr.arpa")
		if a.Name != want || (err == nil) != (want != "") || err != nil && !fault.Is(err, fault.Network) {
			t.Errorf("%s: %q, %v", name, a.Name, err)
		}
	}
}
