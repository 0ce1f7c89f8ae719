package exit

import (
	"bytes"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/pace"
	"github.com/chivenet/chive/internal/stream"
)

// TestReasonsOfShortage: a stream above a bound of its circuit is not refused with
// RESOURCELIMIT: C tor's client would use this exit for nothing until there is a new consensus.
// A full exit says it.
func TestReasonsOfShortage(t *testing.T) {
	port := echoServer(t)
	cfg := accept(t, "accept *:*")
	cfg.MaxPerCircuit, cfg.MaxConns = 3, 100
	e, c := setup(t, cfg, nil)
	for range 3 {
		if _, err := dial(t, c, "127.0.0.1", port); err != nil {
			t.Fatal(err)
		}
	}
	_, err := dial(t, c, "127.0.0.1", port)
	wantEnd(t, err, cell.EndMisc)
	e.conns.Add(97)
	_, err = dial(t, c, "127.0.0.1", port)
	wantEnd(t, err, cell.EndResourceLimit)
	e.conns.Add(-97)
	e.mu.Lock()
	e.asked = maxAsking
	for _, s := range e.circs {
		s.open = 0
	}
	e.mu.Unlock()
	_, err = dial(t, c, "name.test", port)
	wantEnd(t, err, cell.EndMisc)
	e.SetStreamLimit(&StreamLimit{Pace: pace.Limit{Rate: 1e-9, Burst: 1}})
	for range 2 {
		_, err = dial(t, c, "name.test", port)
		wantEnd(t, err, cell.EndMisc)
	}
}

// TestNamesThatCannotBe: a RESOLVE of what is no name is answered with an error, and costs
// no other stream of the circuit.
func TestNamesThatCannotBe(t *testing.T) {
	_, c := setup(t, accept(t, "accept *:*"), nil)
	for _, body := range []string{"a name\x00", "\x00", "unended"} {
		if got := ask(t, c, body); len(got) != 1 || got[0].Type != cell.AnswerError {
			t.Errorf("%q: %v", body, got)
		}
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// TestNoDirectoryOnSets: a conflux set carries no directory streams. On a later leg such a
// stream broke the whole set with its first bytes.
func TestNoDirectoryOnSets(t *testing.T) {
	_, legs := circuits(t, 2, accept(t, "accept *:*"), dirserver.New(dirserver.Config{Docs: new(dirserver.Memory)}))
	set, err := circuit.LinkConflux(t.Context(), legs, cell.ConfluxHighThroughput)
	if err != nil {
		t.Fatal(err)
	}
	legs = set.Legs()
	for i, leg := range legs {
		a, at := make(answers, 2), uint16(0)
		if err := legs[0].Last().OpenStream(func(id uint16) circuit.StreamReceiver { at = id; return a }); err != nil {
			t.Fatal(err)
		}
		if err := leg.Last().Send(cell.RelayBeginDir, at, nil); err != nil {
			t.Fatal(err)
		}
		if err := legs[0].Last().Send(cell.RelayData, at, []byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if m := <-a; m.Cmd != cell.RelayEnd || cell.ParseEnd(m.Data).Reason != cell.EndNotDirectory {
			t.Fatalf("leg %d: %v %x: %v", i, m.Cmd, m.Data, leg.Err())
		}
		legs[0].Last().RemoveStream(at, true)
	}
	if _, err := stream.BeginDir(legs[0].Last()); !fault.Is(err, fault.Local) {
		t.Errorf("a client asks for one: %v", err)
	}
	s, err := dial(t, legs[0], "127.0.0.1", echoServer(t))
	if err != nil {
		t.Fatal(err)
	}
	talk(t, s)
}

// answers receives RESOLVED.
type answers chan cell.RelayMsg

func (a answers) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	m.Data = bytes.Clone(m.Data)
	a <- m
	return nil
}
func (a answers) Flush()                   {}
func (a answers) HandleCircuitClose(error) { close(a) }

// ask sends a RESOLVE with any body.
func ask(t *testing.T, c *circuit.Circuit, body string) cell.Resolved {
	t.Helper()
	a, at := make(answers, 2), uint16(0)
	if err := c.Last().OpenStream(func(id uint16) circuit.StreamReceiver { at = id; return a }); err != nil {
		t.Fatal(err)
	}
	if err := c.Last().Send(cell.RelayResolve, at, []byte(body)); err != nil {
		t.Fatal(err)
	}
	m := <-a
	r, err := cell.ParseResolved(m.Data)
	if m.Cmd != cell.RelayResolved || err != nil {
		t.Fatalf("%q: %v, %v: %v", body, m.Cmd, err, c.Err())
	}
	return r
}
