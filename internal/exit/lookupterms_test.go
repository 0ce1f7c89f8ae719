package exit

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestLookupTerms: the consensus says how long an exit waits for a name server, and how often
// it asks.
func TestLookupTerms(t *testing.T) {
	e := new(Exit)
	for name, c := range map[string]struct {
		params   netdoc.Params
		timeout  time.Duration
		attempts int
	}{
		"nothing": {nil, 5 * time.Second, 3},
		"both":    {netdoc.Params{{Name: "exit_dns_num_attempts", Value: 7}, {Name: "exit_dns_timeout", Value: 2900}}, 2 * time.Second, 7},
		"least":   {netdoc.Params{{Name: "exit_dns_num_attempts", Value: 0}, {Name: "exit_dns_timeout", Value: 1}}, time.Second, 1},
		"most":    {netdoc.Params{{Name: "exit_dns_num_attempts", Value: 256}, {Name: "exit_dns_timeout", Value: 1 << 30}}, 2 * time.Minute, 255},
	} {
		e.SetLookups(c.params.Get)
		if timeout, attempts := e.lookups.get(); timeout != c.timeout || attempts != c.attempts {
			t.Errorf("%s: %v, %d", name, timeout, attempts)
		}
	}
}

// TestLookupAttempts: a question is asked as often as the consensus says, with the name
// servers of a reload too.
func TestLookupAttempts(t *testing.T) {
	var asked atomic.Int32
	server := serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		asked.Add(1)
		m.Rcode = dns.RcodeServerFailure
		w.WriteMsg(m)
	})
	e := new(Exit)
	e.opts.Now, e.opts.Stats = time.Now, new(Stats)
	e.SetLookups(netdoc.Params{{Name: "exit_dns_num_attempts", Value: 1}}.Get)
	if err := e.SetConfig(&Config{Policy: AcceptAll(), Nameservers: []netip.AddrPort{server}}); err != nil {
		t.Fatal(err)
	}
	for _, attempts := range []int32{1, 7} {
		e.SetLookups(netdoc.Params{{Name: "exit_dns_num_attempts", Value: attempts}}.Get)
		asked.Store(0)
		q := query{fmt.Sprintf("host%d.test.", attempts), dnsmessage.TypeA}
		if _, err := e.rules.Load().names.get(t.Context(), q); err == nil || asked.Load() != attempts {
			t.Errorf("%d attempts: asked %d times: %v", attempts, asked.Load(), err)
		}
	}
}
