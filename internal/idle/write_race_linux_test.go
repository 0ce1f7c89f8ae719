package idle

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/nonblock"
)

// TestEndWhileAWriteFails: a reset ends a read and a write that wait at the same time. If the
// write is told of it, the read finds an end, and Failed must say what it is worth even if the
// write has not returned yet.
func TestEndWhileAWriteFails(t *testing.T) {
	much := make([]byte, 64<<10)
	ends, wrong := 0, 0
	for end := time.Now().Add(time.Second); time.Now().Before(end) && wrong == 0; {
		a, b := pair(t)
		a.SetReadBuffer(4 << 10)
		b.SetWriteBuffer(4 << 10)
		s, _ := resting(t, b)
		var all sync.WaitGroup
		all.Go(func() {
			for {
				if _, err := s.Write(much); err != nil {
					if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
						t.Error(err)
					}
					return
				}
			}
		})
		_, raw, err := s.Hold(true)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer s.Release()
			var n int
			var err error
			rerr := raw.Read(func(fd uintptr) bool {
				n, err = nonblock.Read(fd, make([]byte, 1))
				return err != nonblock.ErrWait
			})
			if rerr == nil && err == nil && n == 0 {
				ends++
				if !s.Failed() {
					wrong++
				}
			} else if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(rerr, os.ErrClosed) {
				t.Error(n, err, rerr)
			}
		})
		for range 100 { // most often, both wait then
			runtime.Gosched()
		}
		a.SetLinger(0)
		a.Close()
		all.Wait()
		s.Close()
	}
	if wrong > 0 {
		t.Errorf("a reset was taken for the peer's end (of %d ends that were read)", ends)
	}
	t.Log(ends, "ends")
}
