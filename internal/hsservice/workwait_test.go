package hsservice

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// TestWorkOrder: the greatest effort is answered first, at the rate that is set, and what
// has waited for 15 seconds not at all.
func TestWorkOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan linkspec.Target, 1000)
		s, p := asksForWork(t, nowhere{calls: calls}, nil)
		s.work.set(&PoW{Rate: 1, Burst: 1})
		introduce := func(cookie byte, effort uint32) {
			a := ask()
			a.cookie, a.onion = cookie, ident.X25519Key{cookie}
			if effort > 0 {
				w := proof(s, cookie, effort, proofGood)
				a.exts = []cell.Ext{w.Ext()}
			}
			if err := s.queueIntroduce2(p, nil, a.message(t, p)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		introduce(255, 0) // it gets the first place
		for i := range byte(20) {
			introduce(1+i, uint32(i*7%20)) // each effort from 0 to 19 once
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		s.Close()
		close(calls)
		var got []uint32
		for c := range calls {
			if e := uint32(c.Ntor[0]-1) * 7 % 20; c.Ntor[0] != 255 && !slices.Contains(got, e) { // each is tried twice
				got = append(got, e)
			}
		}
		want := []uint32{19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5}
		if len(got) < 14 || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("the order is %v", got)
		}
	})
}

// TestCheapWait: while 16 rendezvous are under way, clients that did less than was suggested
// wait, and others do not.
func TestCheapWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan linkspec.Target, 1000)
		s, p := asksForWork(t, silent{nowhere{calls: calls}}, nil)
		for range 100 {
			s.work.control.Came(1000)
		}
		s.work.control.Served(true)
		s.work.control.Update(time.Now(), 1000, false)
		s.work.control.Update(time.Now().Add(hspow.ControlEvery), 1000, false)
		suggested := s.work.control.Suggested()
		if suggested != hspow.MaxSuggested {
			t.Fatalf("effort %d", suggested)
		}
		cookie := byte(0)
		introduce := func(effort uint32) {
			cookie++
			a := ask()
			a.cookie = cookie
			w := proof(s, cookie, effort, proofGood)
			a.exts = []cell.Ext{w.Ext()}
			if err := s.queueIntroduce2(p, nil, a.message(t, p)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for range 2 * maxCheap {
			introduce(1)
		}
		if n := len(calls); n != maxCheap {
			t.Errorf("%d cheap ones are under way", n)
		}
		for range maxCheap {
			introduce(suggested)
		}
		if n := len(calls); n != 2*maxCheap {
			t.Errorf("%d are under way", n)
		}
		s.Close()
	})
}

// TestWorkedPlaces: those with a proof have places of their own, a greater effort takes the
// place of the least one, and those without a proof take none of these places.
func TestWorkedPlaces(t *testing.T) {
	s, a := hosted(t, nowhere{})
	now := time.Now()
	fill := func(effort uint32) (n int) {
		for ; n < 1000; n++ {
			if _, _, err := s.takePlace(wish{through: a, effort: effort}, now); err != nil {
				break
			}
		}
		return n
	}
	if n := fill(0); n != maxRendezvous {
		t.Errorf("%d without a proof", n)
	}
	if n := fill(5); n != maxWithWork {
		t.Errorf("%d with a proof", n)
	}
	if n := fill(4); n != 0 {
		t.Errorf("%d with less", n)
	}
	if n := fill(6); n != maxWithWork {
		t.Errorf("%d with more", n)
	}
	without := 0
	for _, u := range s.pending {
		if u.effort == 0 {
			without++
		}
	}
	if without != maxRendezvous || len(s.pending) != maxRendezvous+maxWithWork {
		t.Errorf("%d without a proof, of %d", without, len(s.pending))
	}
	now = now.Add(rendPatience) // whatever their effort
	if n := fill(1); n != maxWithWork {
		t.Errorf("%d after a while", n)
	}
	if len(s.pending) != maxRendezvous+maxWithWork {
		t.Errorf("%d are under way", len(s.pending))
	}
}

// TestWorkEnds: whatever waits, the end of the service, of the option, and of a point leave
// nothing behind.
func TestWorkEnds(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Service, *point){
		"closed": func(_ *testing.T, s *Service, _ *point) { s.Close() },
		"turned off": func(t *testing.T, s *Service, _ *point) {
			if err := s.Reload(Live{}); err != nil {
				t.Fatal(err)
			}
		},
		"its point is gone": func(_ *testing.T, s *Service, p *point) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.removeLocked(p)
		},
		"its circuit's account is closed": func(*testing.T, *Service, *point) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := account.New(1 << 30)
				on := m.Address(netip.Addr{}).Open(account.Circuit, nil)
				w := &world{reached: map[ident.RSAID]time.Time{}}
				s, p := asksForWork(t, w, m)
				s.work.set(&PoW{Rate: 1, Burst: 1})
				f := newFlooder(t, p, pointSilent)
				f.proof = func(pow *cell.PoW) {
					seed := s.work.schedule.At(time.Now())
					pow.Effort, pow.SeedHead, pow.Solution[0] = 1+uint32(f.n%3), [4]byte(seed.Value[:4]), proofGood
				}
				for range 2 * maxOpened {
					body, _ := f.introduction()
					if err := s.queueIntroduce2(p, on, body); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if st := s.Status().PoW; st.Waiting == 0 || st.Waiting > maxOpened {
					t.Fatalf("%+v", st)
				}
				if used := on.Used(); used > maxOpened*openedCost+maxWaiting*1000 {
					t.Errorf("%d bytes are counted", used)
				}
				end(t, s, p)
				time.Sleep(time.Minute)
				synctest.Wait()
				if name != "closed" {
					if n, _, _ := s.work.queue.state(); n != 0 || on.Used() != 0 {
						t.Errorf("%d wait after a minute, %d bytes are counted", n, on.Used())
					}
				}
				on.Close()
				s.Close()
				if m.Used() != 0 {
					t.Errorf("%d bytes are left", m.Used())
				}
			})
		})
	}
}
