package pool

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestKeeperSleeps: a request that an open circuit in use serves does not wake the keeper, nor does
// its end, for there is nothing to build or to close. One that takes or needs a clean circuit does.
func TestKeeperSleeps(t *testing.T) {
	run(t, bare(), &fakeBuilder{took: time.Second}, func(p *Pool) {
		first := acquire(t, p, to(443, key("a")))
		time.Sleep(time.Minute)
		synctest.Wait()
		p.kicked = make(chan struct{}, 1) // the keeper waits for the other one
		kicks := func() int {
			n := len(p.kicked)
			if n > 0 {
				<-p.kicked
			}
			return n
		}
		ask := func(user string) *waiter {
			w := &waiter{req: to(443, key(user)), target: target{port: 443}, got: make(chan answer, 1)}
			if err := p.join(w); err != nil {
				t.Fatal(err)
			}
			return w
		}
		w := ask("a")
		if n := kicks(); n != 0 || len(w.got) != 1 {
			t.Errorf("%d kicks for a circuit in use; %d answers", n, len(w.got))
		}
		(<-w.got).lease.Release()
		if n := kicks(); n != 0 {
			t.Error("a kick for the end of a stream")
		}
		ask("other")
		if n := kicks(); n != 1 {
			t.Errorf("%d kicks for a request that needs a circuit", n)
		}
		first.Release()
		if n := kicks(); n != 1 {
			t.Errorf("%d kicks for an end while a request waits", n)
		}
	})
}
