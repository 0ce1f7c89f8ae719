package exit

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/simnet"
)

// TestLookupsAreCounted: while a name server does not answer, the questions are on the
// account of the circuit that asked. When they have ended, nothing of them is left there.
func TestLookupsAreCounted(t *testing.T) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	cfg := accept(t, "accept *:*")
	cfg.Nameservers = []netip.AddrPort{serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		<-gate
		m.Rcode = dns.RcodeNameError
		_ = w.WriteMsg(m)
	})}
	cfg.IPv6 = true
	e, err := New(cfg, nil, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	memory := account.New(1 << 30)
	r := simnet.New(t, simnet.Options{Streams: e, Memory: memory})
	t.Cleanup(e.Close)
	c := r.Circuit(t)
	asked := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.asked
	}
	before := memory.Used()
	const one = int64(resolveCost + 2*questionCost)
	const each = 20
	got := ends{make(chan cell.RelayMsg, 2*each)}
	send := func(cmd cell.RelayCommand, body []byte) {
		t.Helper()
		var id uint16
		if err := c.Last().OpenStream(func(n uint16) circuit.StreamReceiver { id = n; return got }); err != nil {
			t.Fatal(err)
		}
		if err := c.Last().Send(cmd, id, body); err != nil {
			t.Fatal(err)
		}
	}
	for i := range each {
		send(cell.RelayResolve, fmt.Appendf(nil, "a%d.test\x00", i))
		send(cell.RelayBegin, fmt.Appendf(nil, "b%d.test:80\x00\x00\x00\x00\x01", i))
	}
	until(t, func() bool { return asked() == 2*each })
	if counted := memory.Used() - before; counted < 2*each*one {
		t.Errorf("%d bytes are counted for %d lookups", counted, 2*each)
	}
	open()
	for range 2 * each {
		<-got.got
	}
	until(t, func() bool { return asked() == 0 && e.conns.Load() == 0 })
	// What stays is the state of a circuit with closed streams.
	until(t, func() bool { return memory.Used()-before < one })
	if c.Err() != nil { // then nothing of it would be counted
		t.Error(c.Err())
	}
}
