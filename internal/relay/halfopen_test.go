//go:build unix

package relay

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// TestHalfOpen: with as many silent connections as possible, other clients are
// still served.
func TestHalfOpen(t *testing.T) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	v := startVictim(t, nil)
	// This process has both ends of each connection; the relay closes its own.
	n := min(10_000, int(l.Cur)-v.gate.handshakes-1000)
	if testing.Short() {
		n = min(n, v.gate.handshakes+100)
	}
	if n < 500 {
		t.Fatalf("only %d file descriptors", l.Cur)
	}
	good := v.connect(t, nil)
	var silent []net.Conn
	t.Cleanup(func() {
		for _, c := range silent {
			c.Close()
		}
	})
	for i := range n {
		c, err := net.Dial("tcp", v.Addrs()[0].String())
		if err != nil {
			t.Fatal(i, err)
		}
		silent = append(silent, c)
	}
	v.connect(t, nil).use()
	good.use()
	waiting := func() int {
		v.gate.mu.Lock()
		defer v.gate.mu.Unlock()
		return v.gate.waiting.Len()
	}
	if w := waiting(); w > v.gate.handshakes || w < min(n, v.gate.handshakes)/2 {
		t.Errorf("%d of %d wait, of %d that may", w, n, v.gate.handshakes)
	}
	// The relay may not yet have handled every accepted connection.
	for timeout := within(t); n > v.gate.handshakes+10 && v.gate.cutOff.Load() == 0; {
		select {
		case <-timeout.Done():
			t.Fatal("none was cut off")
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Logf("%d silent connections: %d are waited for, %d were cut off", n, waiting(), v.gate.cutOff.Load())
}
