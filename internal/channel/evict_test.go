package channel

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TestEvictedWhileOpened: a circuit that is evicted while it is being opened is told.
func TestEvictedWhileOpened(t *testing.T) {
	ch := &Channel{circs: map[uint32]*CircuitEnd{}, cfg: &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}, turn: turnLoop}
	for range 1000 {
		s, begun, evicted := newSink(), make(chan struct{}), make(chan struct{})
		ch.mu.Lock() // as Open holds it
		c := ch.addLocked(7, nil)
		go func() {
			close(begun)
			c.evict(fault.New(fault.Resource, "too much"))
			close(evicted)
		}()
		<-begun
		runtime.Gosched()
		c.SetReceiver(s)
		ch.mu.Unlock()
		<-evicted
		select {
		case <-s.ended:
		default:
			t.Fatal("the circuit was not told")
		}
	}
}
