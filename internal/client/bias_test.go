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

// used returns a client whose exits all give an answer, and a circuit's use of a guard
// that the next stream of the client is counted for.
func used(t *testing.T, cmd cell.RelayCommand, body []byte) (*Client, *liar, *guard.Use) {
	t.Helper()
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	c, l := withLiars(t, Config{Network: netdir.Public()})
	now := time.Now()
	c.guards.Update(guard.FromNetdir(d), now)
	use, err := c.guards.Pick(guard.Request{}, now)
	if err != nil {
		t.Fatal(err)
	}
	use.Extended()
	use.Succeeded(now)
	lease, err := c.pool.Load().Acquire(t.Context(), pool.Request{Dest: path.Dest{Port: 443}})
	if err != nil {
		t.Fatal(err)
	}
	circ := lease.Circuit.(*OpenCircuit)
	circ.path = &path.Path{Hops: circ.path.Hops, Guard: use}
	lease.Release()
	l.say(cmd, body)
	return c, l, use
}

// uses ends the use, and returns how often streams were tried and answered.
func uses(c *Client, use *guard.Use) (tried, answered float64) {
	use.Closed(time.Now(), true)
	for _, g := range c.guards.Status(time.Now()).Guards {
		tried, answered = tried+g.UseAttempts, answered+g.Uses
	}
	return tried, answered
}

// TestNoSuchNameIsAnAnswer: an exit that knows no address of a name has answered, so the
// guard has let the question and the answer through.
func TestNoSuchNameIsAnAnswer(t *testing.T) {
	for _, answer := range []cell.AnswerType{cell.AnswerError, cell.AnswerErrorTransient, cell.AnswerHostname} {
		body, err := cell.Resolved{{Type: answer, Text: []byte("a.name"), TTL: 60}}.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		c, l, use := used(t, cell.RelayResolved, body)
		if _, err := c.Resolve(t.Context(), Request{Host: "nosuch.example"}); err == nil {
			t.Fatal("there is an answer")
		}
		if n := l.asked.Load(); n != 1 {
			t.Errorf("%d exits were asked", n)
		}
		if tried, answered := uses(c, use); tried != 1 || answered != 1 {
			t.Errorf("answer %d: %v of %v uses were answered", answer, answered, tried)
		}
	}
}

// TestEndsThatAreNoAnswer: a cell that the guard has tampered with makes an exit end the
// stream, too. Such ends are not counted for the guard, as C tor counts them.
func TestEndsThatAreNoAnswer(t *testing.T) {
	for reason := cell.EndMisc; reason <= cell.EndNotDirectory; reason++ {
		want := 1.0
		if reason == cell.EndTorProtocol || reason == cell.EndDestroy || reason == cell.EndInternal {
			want = 0
		}
		m := cell.End{Reason: reason}
		c, _, use := used(t, cell.RelayEnd, m.Append(nil))
		if conn, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 443}); conn != nil || err == nil {
			t.Fatal("it is open")
		}
		if tried, answered := uses(c, use); tried != 1 || answered != want {
			t.Errorf("%v: %v of %v uses were answered", reason, answered, tried)
		}
		if now := c.pool.Load().Status(); reason == cell.EndTorProtocol && now.Clean+now.Dirty > 0 {
			t.Errorf("%v: the circuit takes other streams", reason)
		}
	}
}
