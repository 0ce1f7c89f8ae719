package relay

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

// TestPanicEndsAConnection: after a panic in its handler a connection is closed,
// and the next one is served; the metrics have the count of panics from the
// start.
func TestPanicEndsAConnection(t *testing.T) {
	var log panicstest.Log
	cfg := bridgeConfig(t)
	cfg.Log = log.Logger()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.closeListeners()
	var reg metrics.Registry
	r.Register(&reg)
	var page strings.Builder
	if err := reg.WritePrometheus(&page); err != nil || !strings.Contains(page.String(), "\nchive_panics_total 0\n") {
		t.Errorf("%v: %s", err, page.String())
	}

	panicstest.Expect(t, 2)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.acceptLoop(t.Context(), ln, func(_ context.Context, c net.Conn) {
			if n.Add(1) <= 2 {
				panic("a mistake")
			}
			io.WriteString(c, "welcome")
			c.Close()
		})
	}()
	for _, want := range []string{"", "", "welcome"} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || string(b) != want {
			t.Errorf("got %q, %v", b, err)
		}
		c.Close()
	}
	ln.Close()
	<-done // every call of welcome has ended too
	if n := len(log.Panics()); n != 1 {
		t.Errorf("%d stacks were logged", n)
	}
}
