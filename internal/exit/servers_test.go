package exit

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestSilentServer: a name server that does not answer is asked after the others, until some
// time has passed; if none answers, all are asked.
func TestSilentServer(t *testing.T) {
	var silent atomic.Bool
	silent.Store(true)
	var asked [2]atomic.Int32
	server := func(i int, fails func() bool) netip.AddrPort {
		return serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
			if w.RemoteAddr().Network() == "udp" {
				asked[i].Add(1)
				if m.Truncated = fails(); !m.Truncated {
					rr, _ := dns.NewRR(m.Question[0].Name + " IN A 192.0.2.1")
					m.Answer = append(m.Answer, rr)
				}
				_ = w.WriteMsg(m)
			} else {
				w.Close() // sooner than after the time for an answer
			}
		})
	}
	var broken atomic.Bool
	bad, good := server(0, silent.Load), server(1, broken.Load)
	now := time.Unix(1e9, 0)
	r, err := newResolver([]netip.AddrPort{bad, good}, &Options{Now: func() time.Time { return now }, Stats: new(Stats)})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	look := func() error {
		n++
		_, err := r.addrs(t.Context(), fmt.Sprintf("n%d.test", n), true, false)
		return err
	}
	for range 8 {
		if err := look(); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked[0].Load(); n != 1 {
		t.Errorf("the silent server was asked %d times", n)
	}
	// None answers: both are asked, as often as ever.
	broken.Store(true)
	if err := look(); err == nil || asked[0].Load() < 2 || asked[0].Load()+asked[1].Load() != 1+8+dnsAttempts {
		t.Errorf("%v; asked %d and %d times", err, asked[0].Load(), asked[1].Load())
	}
	// Later it is asked again, and takes its turn as soon as it answers.
	broken.Store(false)
	silent.Store(false)
	now = now.Add(silence)
	before := asked[0].Load()
	for range 8 {
		if err := look(); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked[0].Load() - before; n != 4 {
		t.Errorf("of 8 questions the first server got %d", n)
	}
}
