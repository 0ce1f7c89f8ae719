package exit

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
)

// TestClientGivesLookupUp: C tor's client sends END for a lookup that it has given up. That costs
// no other stream of its circuit, whether the answer has gone out or not.
func TestClientGivesLookupUp(t *testing.T) {
	asked, gate := make(chan struct{}, 8), make(chan struct{})
	cfg := accept(t, "accept *:*")
	cfg.Nameservers = []netip.AddrPort{serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		asked <- struct{}{}
		<-gate
		r := new(dns.Msg)
		r.SetRcode(m, dns.RcodeNameError)
		_ = w.WriteMsg(r)
	})}
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	_, c := setup(t, cfg, nil)
	s, err := dial(t, c, "127.0.0.1", echoServer(t))
	if err != nil {
		t.Fatal(err)
	}
	h := c.Last()
	a, at := make(answers, 2), uint16(0)
	if err := h.OpenStream(func(id uint16) circuit.StreamReceiver { at = id; return a }); err != nil {
		t.Fatal(err)
	}
	send := func(cmd cell.RelayCommand, body []byte) {
		t.Helper()
		if err := h.Send(cmd, at, body); err != nil {
			t.Fatal(err)
		}
	}
	end := cell.End{Reason: cell.EndMisc}
	send(cell.RelayResolve, []byte("slow.test\x00"))
	<-asked
	send(cell.RelayEnd, end.Append(nil))
	open()
	if m, ok := <-a; !ok || m.Cmd != cell.RelayResolved {
		t.Fatalf("%v: %v", m.Cmd, c.Err())
	}
	send(cell.RelayEnd, end.Append(nil))
	talk(t, s)
}
