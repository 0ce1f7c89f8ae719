package circuit

import (
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
)

// TestIntroductionsThatWait: when the service's link does not take introductions,
// clients are refused. They cannot end the service's circuit by filling its queue.
func TestIntroductionsThatWait(t *testing.T) {
	onRig(t, func(r *rig) {
		queues := NewQueueLimits()
		queues.In.Store(MinQueue)
		r.server.cfg.Env.Queues = queues
		key := hsKey(t)
		service := r.hsCircuit(r.client, congested)
		service.say(cell.RelayEstablishIntro, service.establishIntro(key))
		service.heard(cell.RelayIntroEstablished)
		body := introduction(key, 300)
		service.gate = make(chan struct{}) // the service's link is not read from now on
		sent, refused := 0, 0
		for range 10 * MinQueue {
			if r.introduced(body) == cell.IntroduceOK {
				sent++
			} else {
				refused++
			}
		}
		if refused == 0 {
			t.Error("all introductions were taken")
		}
		close(service.gate)
		synctest.Wait()
		if !service.lives() {
			t.Error(service.c.Err())
			return
		}
		for range sent {
			service.heard(cell.RelayIntroduce2)
		}
		if got := r.introduced(body); got != cell.IntroduceOK || !service.lives() {
			t.Errorf("afterwards: %v; %v", got, service.c.Err())
		}
		service.heard(cell.RelayIntroduce2)
		service.close()
		r.nothingLeft("flood")
	})
}
