package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/simnet"
)

// TestSilentLink: a link on which nothing comes any more, because the network has changed
// under it, is not used for other circuits; another one is opened. A circuit that was given
// up in time says nothing about its link, nor does one that waits while others get answers.
func TestSilentLink(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var dead sync.RWMutex
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		conn, err := simnet.Dial(ctx, addr)
		return mute{conn, &dead}, err
	})
	t.Cleanup(m.Close)
	env := &circuit.Env{Now: time.Now}
	guard := simnet.New(t, simnet.Options{}).Target
	link := func() *channel.Channel {
		t.Helper()
		ch, err := m.Get(ctx, guard)
		if err != nil {
			t.Fatal(err)
		}
		return ch
	}
	create := func(ctx context.Context, ch *channel.Channel) error {
		_, err := circuit.Create(ctx, env, ch, guard, circuit.HopOptions{})
		return err
	}
	old := link()
	if err := create(ctx, old); err != nil {
		t.Fatal(err)
	}
	dead.Lock()
	gone, giveUp := context.WithCancel(ctx)
	giveUp()
	if err := create(gone, old); !errors.Is(err, context.Canceled) || m.Find(guard) != old {
		t.Errorf("after a circuit that was given up: %v", err)
	}
	late, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	if err := create(late, old); !fault.Is(err, fault.Timeout) {
		t.Errorf("%v", err)
	}
	if ch := m.Find(guard); ch != nil {
		t.Error("the silent link is still used")
	}
	dead.Unlock()
	if err := create(ctx, link()); err != nil {
		t.Error(err)
	}
}
