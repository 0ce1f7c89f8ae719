package exit

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
)

// TestClientGivesLookupUp: C tor's client sends END for a lookup that it has given up. That ends
// the lookup, and costs no other stream of its circuit, whether the answer has gone out or not.
// Its identifier can be used again at once. One that is in use cannot: as with C tor, such a
// RESOLVE is dropped.
func TestClientGivesLookupUp(t *testing.T) {
	asked, gate := make(chan struct{}, 8), make(chan struct{})
	cfg := accept(t, "accept *:*")
	cfg.Nameservers = []netip.AddrPort{serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if m.Question[0].Name == "slow.test." {
			asked <- struct{}{}
			<-gate
		}
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
	a, at := make(answers, 4), uint16(0)
	if err := h.OpenStream(func(id uint16) circuit.StreamReceiver { at = id; return a }); err != nil {
		t.Fatal(err)
	}
	send := func(cmd cell.RelayCommand, body []byte) {
		t.Helper()
		if err := h.Send(cmd, at, body); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(want cell.AnswerType) {
		t.Helper()
		m, ok := <-a
		if !ok || m.Cmd != cell.RelayResolved {
			t.Fatalf("%v: %v", m.Cmd, c.Err())
		}
		if got, err := cell.ParseResolved(m.Data); err != nil || len(got) != 1 || got[0].Type != want {
			t.Fatalf("%v: %v", got, err)
		}
	}
	end := cell.End{Reason: cell.EndMisc}
	send(cell.RelayResolve, []byte("slow.test\x00"))
	<-asked
	send(cell.RelayResolve, []byte("fast.test\x00")) // the identifier is in use
	send(cell.RelayEnd, end.Append(nil))
	send(cell.RelayResolve, []byte("192.0.2.1\x00"))
	answered(cell.AnswerIPv4)
	send(cell.RelayEnd, end.Append(nil)) // after the answer
	send(cell.RelayResolve, []byte("other.test\x00"))
	answered(cell.AnswerError)
	open()
	talk(t, s)
	if len(a) > 0 {
		t.Error("a lookup was answered that the client had given up")
	}
}
