package hsservice

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/stream"
)

// TestSeveralTargets: the streams of one client to a port go to all of its targets, at random,
// and to no other port's. A target that is there twice gets twice as many.
func TestSeveralTargets(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	var mu sync.Mutex
	count := map[string]int{}
	s.cfg.Dial = func(_ context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		count[network+" "+address]++
		return nil, &net.OpError{Op: "dial", Err: errors.New("nobody is there")}
	}
	a, b, c := Target{"tcp", "127.0.0.1:1"}, Target{"unix", "/b"}, Target{"tcp", "127.0.0.1:3"}
	if err := s.Reload(Live{Targets: map[uint16][]Target{80: {a, b}, 81: {c}}}); err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 100 {
		st, err := stream.BeginOnion(client.Last(), "x.onion", 80)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.WaitOpen(ctx); err == nil {
			t.Fatal("a target that cannot be connected to took a stream")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	// A fair coin shows one side fewer than 15 times of 100 once in 10^13.
	if n, m := count["tcp 127.0.0.1:1"], count["unix /b"]; n < 15 || m < 15 || n+m != 100 {
		t.Errorf("%v", count)
	}
	twice := 0
	if err := s.Reload(Live{Targets: map[uint16][]Target{80: {a, b, a}}}); err != nil {
		t.Fatal(err)
	}
	for range 900 {
		if to, listened, ok := s.portServed(80); !ok || listened {
			t.Fatal("the port is not served")
		} else if to == a {
			twice++
		}
	}
	if twice < 480 || twice > 720 { // eight deviations
		t.Errorf("%d of 900 went to the target that is there twice", twice)
	}
}
