package exit

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
)

// TestSilenceAboutIPv6: some name servers never answer questions about IPv6. An exit that
// has IPv4 addresses does not wait for them until its clients have given up.
func TestSilenceAboutIPv6(t *testing.T) {
	for _, silent := range []uint16{dns.TypeAAAA, dns.TypeA} {
		var asked atomic.Int32
		r := testResolver(t, serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
			q := m.Question[0]
			if q.Qtype == silent {
				asked.Add(1)
				return
			}
			rr, _ := dns.NewRR(q.Name + map[uint16]string{dns.TypeA: " IN A 192.0.2.1", dns.TypeAAAA: " IN AAAA 2001:db8::1"}[q.Qtype])
			m.Answer = append(m.Answer, rr)
			_ = w.WriteMsg(m)
		}))
		a, err := r.addrs(t.Context(), "half.test", true, true)
		if n := asked.Load(); err != nil || len(a.Addrs) != 1 || n >= dnsAttempts {
			t.Errorf("%v %v; asked %d times for what nobody answers", a.Addrs, err, n)
		}
	}
}

// TestBothFamilies: an answer that comes a little later still counts.
func TestBothFamilies(t *testing.T) {
	first := make(chan struct{})
	r := testResolver(t, serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		q := m.Question[0]
		rr, _ := dns.NewRR(q.Name + " IN A 192.0.2.1")
		if q.Qtype == dns.TypeAAAA {
			<-first
			rr, _ = dns.NewRR(q.Name + " IN AAAA 2001:db8::1")
		} else {
			defer close(first)
		}
		m.Answer = append(m.Answer, rr)
		_ = w.WriteMsg(m)
	}))
	want := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	if a, err := r.addrs(t.Context(), "both.test", true, true); err != nil || len(a.Addrs) != 2 || a.Addrs[0] != want[0] || a.Addrs[1] != want[1] {
		t.Error(a.Addrs, err)
	}
}
