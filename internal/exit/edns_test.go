package exit

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
)

// TestServerWithoutEDNS: a name server that does not know EDNS is asked without, over TCP
// too; one that refuses every question is not asked for ever.
func TestServerWithoutEDNS(t *testing.T) {
	for name, c := range map[string]struct {
		code      int
		bare, tcp bool // the refusal is a header alone; the plain answer needs TCP
		never     bool
	}{
		"FORMERR":           {code: dns.RcodeFormatError},
		"NOTIMP":            {code: dns.RcodeNotImplemented},
		"a header alone":    {code: dns.RcodeFormatError, bare: true},
		"a long answer":     {code: dns.RcodeFormatError, bare: true, tcp: true},
		"whatever is asked": {code: dns.RcodeFormatError, never: true},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			r := testResolver(t, handleDNS(t, func(w dns.ResponseWriter, q *dns.Msg) {
				asked.Add(1)
				m := new(dns.Msg).SetReply(q)
				if q.IsEdns0() != nil || c.never {
					if m.Rcode = c.code; c.bare {
						m.Question = nil
					}
				} else if m.Truncated = c.tcp && w.RemoteAddr().Network() == "udp"; !m.Truncated {
					rr, _ := dns.NewRR(m.Question[0].Name + " IN A 192.0.2.1")
					m.Answer = append(m.Answer, rr)
				}
				_ = w.WriteMsg(m)
			}))
			a, err := r.addrs(t.Context(), "name.test", true, false)
			if c.never {
				if n := asked.Load(); err == nil || n != 2*dnsAttempts {
					t.Errorf("%v %v, asked %d times", a, err, n)
				}
			} else if err != nil || len(a.Addrs) != 1 || a.Addrs[0] != netip.MustParseAddr("192.0.2.1") {
				t.Errorf("%v %v", a, err)
			}
		})
	}
}
