package exit

import (
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/cell"
)

// TestTTLTellsNothingOfTheCache: what a client hears of a name is the same whether or not
// somebody has asked this exit for it before.
func TestTTLTellsNothingOfTheCache(t *testing.T) {
	var ttl atomic.Uint32
	ttl.Store(7200)
	ns := serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if q := m.Question[0]; q.Qtype == dns.TypeA {
			rr, _ := dns.NewRR(q.Name + " IN A 127.0.0.1")
			rr.Header().Ttl = ttl.Load()
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})
	cfg := accept(t, "reject *:81", "accept *:*")
	cfg.Nameservers = []netip.AddrPort{ns}
	e, c := setup(t, cfg, nil)
	port := echoServer(t)
	told := func(name string) (all [3]uint32) {
		t.Helper()
		a := ask(t, c, name+"\x00")
		if len(a) != 1 || a[0].Type != cell.AnswerIPv4 {
			t.Fatal(a)
		}
		all[0] = a[0].TTL
		e.mu.Lock()
		h := slices.Collect(maps.Keys(e.circs))[0]
		e.mu.Unlock()
		conn, ttl, err := e.connect(t.Context(), h, e.rules.Load(), cell.Begin{Host: name, Port: port}, true, false)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		all[1] = ttl
		_, _, err = e.connect(t.Context(), h, e.rules.Load(), cell.Begin{Host: name, Port: 81}, true, false)
		all[2] = refusalOf(err).ttl
		return all
	}
	// The exit asks for one name now. When its record is about to end, an attacker asks
	// for this name and for another one like it.
	told("asked.test")
	ttl.Store(10)
	if asked, fresh := told("asked.test"), told("fresh.test"); asked != fresh {
		t.Errorf("of a name that somebody had asked for, clients hear %v, of another one %v", asked, fresh)
	}
}

// TestCacheTimesDiffer: when an answer leaves the cache, nobody can tell exactly when it
// came.
func TestCacheTimesDiffer(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := &resolver{now: func() time.Time { return now }, stats: new(Stats), cache: map[query]*lookup{}}
	for _, ttl := range []uint32{minTTL, maxTTL} {
		seen := map[time.Duration]bool{}
		for range 64 {
			l := &lookup{done: make(chan struct{})}
			r.finish(query{"a.test.", dnsmessage.TypeA}, l, Answer{TTL: ttl}, nil)
			kept := l.expires.Sub(now)
			if d := kept - time.Duration(ttl)*time.Second; d < -4*time.Minute || d > 4*time.Minute {
				t.Fatal(ttl, kept)
			}
			seen[kept] = true
		}
		if len(seen) < 32 {
			t.Errorf("64 answers were kept for %d different times", len(seen))
		}
	}
}
