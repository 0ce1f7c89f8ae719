package client

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestNoSuchNameIsAnAnswer: an exit that knows no address of a name has answered, so the
// guard has let the question and the answer through.
func TestNoSuchNameIsAnAnswer(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []cell.AnswerType{cell.AnswerError, cell.AnswerErrorTransient, cell.AnswerHostname} {
		c, l := withLiars(t, Config{Network: netdir.Public()})
		now := time.Now()
		c.guards.Update(guard.FromNetdir(d), now)
		use, err := c.guards.Pick(guard.Request{}, now)
		if err != nil {
			t.Fatal(err)
		}
		use.Extended()
		use.Succeeded(now)
		lease, err := c.pool.Load().Acquire(t.Context(), pool.Request{})
		if err != nil {
			t.Fatal(err)
		}
		circ := lease.Circuit.(*Circ)
		circ.path = &path.Path{Hops: circ.path.Hops, Guard: use}
		lease.Release()
		body, err := cell.Resolved{{Type: answer, Text: []byte("a.name"), TTL: 60}}.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		l.say(cell.RelayResolved, body)
		if _, err := c.Resolve(t.Context(), Request{Host: "nosuch.example"}); err == nil {
			t.Fatal("there is an answer")
		}
		if n := l.asked.Load(); n != 1 {
			t.Errorf("%d exits were asked", n)
		}
		use.Closed(time.Now(), true)
		for _, g := range c.guards.Status(now).Guards {
			if g.Uses != g.UseAttempts || g.ID.RSA == use.Guard().ID.RSA && g.Uses != 1 {
				t.Errorf("answer %d: %v of %v uses were answered", answer, g.Uses, g.UseAttempts)
			}
		}
	}
}
