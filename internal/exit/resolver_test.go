package exit

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

func testResolver(t *testing.T, server netip.AddrPort) *resolver {
	t.Helper()
	r, err := newResolver([]netip.AddrPort{server}, &Options{Now: time.Now, Stats: new(Stats)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// silent runs a name server that never answers; the channel reports each
// question.
func silent(t *testing.T) (netip.AddrPort, <-chan string) {
	asked := make(chan string, 1<<14)
	return serveDNS(t, func(_ dns.ResponseWriter, m *dns.Msg) { asked <- m.Question[0].Name }), asked
}

// TestLookupGivenUp: a question is cancelled when its last caller goes away, but
// not while another caller waits for it.
func TestLookupGivenUp(t *testing.T) {
	server, asked := silent(t)
	r := testResolver(t, server)
	first, leave := context.WithCancel(t.Context())
	second, leaveToo := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	q := query{"slow.test.", dnsmessage.TypeA}
	for _, ctx := range []context.Context{first, second} {
		go func() {
			_, err := r.get(ctx, q)
			ended <- err
		}()
	}
	<-asked
	state := func() (waiters, cached, bytes int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if l := r.cache[q]; l != nil {
			waiters = l.waiters
		}
		return waiters, len(r.cache), r.bytes
	}
	until(t, func() bool { n, _, _ := state(); return n == 2 })
	leave()
	if err := <-ended; !fault.Is(err, fault.Timeout) {
		t.Error(err)
	}
	if waiters, cached, _ := state(); waiters != 1 || cached != 1 || len(r.slots) != 1 {
		t.Error("the question was cancelled while a caller waits:", waiters, cached, len(r.slots))
	}
	leaveToo()
	<-ended
	if _, cached, bytes := state(); cached != 0 || bytes != 0 {
		t.Error("a question without a caller stays:", cached, bytes)
	}
	until(t, func() bool { return len(r.slots) == 0 })
}

// until waits until ok is true, which other goroutines cause.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	end := time.NewTimer(30 * time.Second)
	defer end.Stop()
	for !ok() {
		select {
		case <-end.C:
			t.Fatal("it does not come about")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestCacheBound: names that a stranger makes up do not fill the memory.
func TestCacheBound(t *testing.T) {
	r := &resolver{cache: map[query]*lookup{}}
	long := strings.Repeat("a", 200)
	var addrs []netip.Addr
	for i := range maxAnswers {
		addrs = append(addrs, netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}))
	}
	now := time.Now()
	done := make(chan struct{})
	close(done)
	for i := range 60000 {
		r.evictLocked(now)
		q := query{fmt.Sprint(long, i), dnsmessage.TypeA}
		l := &lookup{done: done, answer: Answer{Addrs: addrs}, expires: now.Add(time.Duration(i%2) * time.Hour)}
		r.cache[q] = l
		r.bytes += l.bytes(q)
		if r.bytes > cacheBytes+2000 {
			t.Fatal(i, r.bytes)
		}
	}
	if len(r.cache) < 5000 {
		t.Error("too little stays:", len(r.cache))
	}
	for q, l := range r.cache {
		r.forgetLocked(q, l)
	}
	if r.bytes != 0 {
		t.Error(r.bytes, "bytes are counted of nothing")
	}
}

// TestReply: of a name server's messages, only the answer to the question counts,
// and only a bounded number of its records.
func TestReply(t *testing.T) {
	q := query{"a.test.", dnsmessage.TypeA}
	message := func(change func(*dns.Msg)) []byte {
		m := new(dns.Msg)
		m.SetQuestion("a.test.", dns.TypeA)
		m.Id, m.Response = 7, true
		for i := range 3 {
			rr, _ := dns.NewRR(fmt.Sprintf("a.test. %d IN A 203.0.113.%d", 100+i, i))
			m.Answer = append(m.Answer, rr)
		}
		change(m)
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	add := func(s string) func(*dns.Msg) {
		return func(m *dns.Msg) {
			rr, err := dns.NewRR(s)
			if err != nil {
				t.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
	}
	for what, x := range map[string]struct {
		msg   []byte
		addrs int // -1: no reply
		ttl   uint32
	}{
		"good":               {message(func(*dns.Msg) {}), 3, 100},
		"an alias":           {message(add("x.test. 5 IN CNAME a.test.")), 3, 5},
		"twice the same":     {message(add("a.test. 200 IN A 203.0.113.1")), 3, 100},
		"another type":       {message(add("a.test. 200 IN AAAA ::1")), 3, 100},
		"another class":      {message(add("a.test. 200 CH A 203.0.113.77")), 3, 100},
		"another identifier": {message(func(m *dns.Msg) { m.Id = 8 }), -1, 0},
		"a question":         {message(func(m *dns.Msg) { m.Response = false }), -1, 0},
		"another name":       {message(func(m *dns.Msg) { m.Question[0].Name = "b.test." }), -1, 0},
		"another question":   {message(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }), -1, 0},
		"two questions":      {message(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), -1, 0},
		"many": {message(func(m *dns.Msg) {
			for i := range 600 {
				add(fmt.Sprintf("a.test. 200 IN A 10.0.%d.%d", i/256, i%256))(m)
			}
		}), maxAnswers, 100},
		"behind many others": {message(func(m *dns.Msg) {
			m.Answer = nil
			for i := range maxRecords {
				add(fmt.Sprintf("a.test. 200 IN TXT %d", i))(m)
			}
			add("a.test. 200 IN A 203.0.113.1")(m)
		}), 0, 200},
		"cut off": {message(func(*dns.Msg) {})[:50], -1, 0},
		"empty":   {nil, -1, 0},
	} {
		r, ok := readReply(x.msg, 7, q)
		switch {
		case ok != (x.addrs >= 0):
			t.Errorf("%s: %v", what, ok)
		case ok && (len(r.addrs) != x.addrs || r.ttl != x.ttl):
			t.Errorf("%s: %v, %d s", what, r.addrs, r.ttl)
		}
	}
}

func FuzzReply(f *testing.F) {
	m := new(dns.Msg)
	m.SetQuestion("a.test.", dns.TypeA)
	b, _ := m.Pack()
	f.Add(b, uint16(1))
	f.Fuzz(func(t *testing.T, msg []byte, typ uint16) {
		for _, typ := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR, dnsmessage.Type(typ)} {
			if r, ok := readReply(msg, 0, query{"a.test.", typ}); ok && len(r.addrs) > maxAnswers {
				t.Fatal(len(r.addrs))
			}
		}
	})
}

// TestLongAnswer: an answer by TCP that is too long is not read.
func TestLongAnswer(t *testing.T) {
	server := serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		name := m.Question[0].Name
		if w.RemoteAddr().Network() == "udp" {
			m.Truncated = true
		} else {
			n := 10
			if name == "long.test." {
				n = 200
			}
			for i := range n {
				rr, _ := dns.NewRR(fmt.Sprintf("%s 60 IN TXT %s", name, strings.Repeat("x", 100)))
				a, _ := dns.NewRR(fmt.Sprintf("%s 60 IN A 203.0.113.%d", name, i))
				m.Answer = append(m.Answer, rr, a)
			}
		}
		_ = w.WriteMsg(m)
	})
	r := testResolver(t, server)
	if a, err := r.get(t.Context(), query{"short.test.", dnsmessage.TypeA}); err != nil || len(a.Addrs) != 10 {
		t.Error(a, err)
	}
	if _, err := r.get(t.Context(), query{"long.test.", dnsmessage.TypeA}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}

// TestSlowNames: one circuit that asks for names without an answer cannot use up
// all lookups, and its questions end with the circuit.
func TestSlowNames(t *testing.T) {
	server, asked := silent(t)
	cfg := accept(t, "accept *:*")
	cfg.Nameservers = []netip.AddrPort{server}
	e, c := circuits(t, 2, cfg, nil)
	flood := c[0].Last()
	got := ends{make(chan cell.RelayMsg, 4096)}
	names := e.rules.Load().names
	// One circuit's share of the streams that may wait; each has at most two
	// questions.
	bound := share(maxAsking)
	for i := range bound + 100 {
		resolve, err := cell.NewResolve(fmt.Sprintf("n%d.test", i))
		if err != nil {
			t.Fatal(err)
		}
		var id uint16
		if err := flood.OpenStream(func(n uint16) circuit.StreamReceiver { id = n; return got }); err != nil {
			t.Fatal(err)
		}
		if err := flood.Send(cell.RelayResolve, id, resolve.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		<-got.got // refused at once
	}
	<-asked
	if n := len(names.slots); n > 2*bound {
		t.Errorf("%d questions are under way for one circuit", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	other := make(chan error, 1)
	go func() {
		_, err := stream.Resolve(ctx, c[1].Last(), "other.test")
		other <- err
	}()
	for name := range asked {
		if name == "other.test." {
			break
		}
	}
	cancel()
	<-other
	for _, circ := range c {
		circ.Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
	}
	until(t, func() bool { return len(names.slots) == 0 && e.conns.Load() == 0 })
	if e.asked != 0 {
		t.Error(e.asked, "lookups are still counted")
	}
}
