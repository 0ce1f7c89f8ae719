package interop

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
)

// TestOnionOnlyChive has a service and its client in a network that is Chive's alone:
// directories, introduction points and rendezvous points too.
func TestOnionOnlyChive(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute, Relays: 6})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	l, err := nw.Client.Listen(ctx, chive.OnionConfig{Ports: []int{7}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	began := time.Now()
	if err := l.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("published after %v", time.Since(began))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	c, err := nw.Client.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
		t.Errorf("%q %v", b, err)
	}
}
