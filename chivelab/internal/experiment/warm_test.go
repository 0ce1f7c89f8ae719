package experiment

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/labtest"
)

// TestFirstCircuits: one of the first circuits may fail, as over a link that loses much, and all of them may not.
func TestFirstCircuits(t *testing.T) {
	labtest.NoLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	f, err := Parse("small.toml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	f.Handshakes, f.Repetitions, f.Downloads, f.Directories = f.Handshakes[:1], 1, 0, 0
	at, err := emulate(ctx, f, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer at.close()
	lost := errors.New("the packets are lost")
	for most, want := range map[int64]string{1: "", 1000: "the first 3 circuits: "} {
		other := *at
		other.close = nil
		var failed atomic.Int64
		// The directory comes from an authority, so that the path's first relay is dialed for circuits alone.
		other.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if !isAuthority(at, to) && failed.Add(1) <= most {
				return nil, lost
			}
			return at.Dial(ctx, to)
		}
		_, err := RunAt(ctx, f, filepath.Join(t.TempDir(), "run"), "test", &other, func(Progress) {})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d fail: %v", most, err)
		}
		if failed.Load() == 0 {
			t.Error("nothing was dialed")
		}
	}
}

func isAuthority(at *Site, to netip.AddrPort) bool {
	for _, a := range at.Network.AuthorityAddrs() {
		if a == to.Addr() {
			return true
		}
	}
	return false
}
