package client

import (
	"bytes"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// askedExit is an exit that keeps what it is asked for, and answers as the test says.
type askedExit struct {
	mu     sync.Mutex
	heard  [][]byte
	answer func(addr netip.Addr) *cell.End // nil: none
}

func (a *askedExit) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = append(a.heard, bytes.Clone(m.Data))
	b, err := cell.ParseBegin(m.Data)
	if err != nil || a.answer == nil {
		return err
	}
	return h.Send(cell.RelayEnd, m.Stream, a.answer(netip.MustParseAddr(b.Host)).Append(nil))
}

// doubtful returns an open circuit on which a stream was tried, and not answered.
func (l *laggard) doubtful(t *testing.T) *OpenCircuit {
	t.Helper()
	circ, err := l.build(t.Context(), pool.Spec{Spec: path.Spec{Dests: []path.Dest{{Port: 443}}}})
	if err != nil {
		t.Fatal(err)
	}
	circ.path.Guard.StreamTried()
	return circ
}

func (l *laggard) uses() (tried, answered float64) {
	g := l.guards.Status(time.Now()).Guards[0]
	return g.UseAttempts, g.Uses
}

// TestProbe: before a circuit closes on which no stream was answered, the exit is asked for what it must refuse. If it does, and knows
// what it was asked for, the guard is not to blame, and the circuit closes. Else it stays for as long as one may take to build.
func TestProbe(t *testing.T) {
	refuse := func(addr netip.Addr) *cell.End { return &cell.End{Reason: cell.EndExitPolicy, Addr: addr, TTL: 60} }
	for what, answer := range map[string]func(netip.Addr) *cell.End{
		"refuses": refuse,
		"silent":  nil,
		"another": func(netip.Addr) *cell.End { return refuse(netip.MustParseAddr("0.1.2.3")) },
		"reason":  func(netip.Addr) *cell.End { return &cell.End{Reason: cell.EndInternal} },
	} {
		t.Run(what, func(t *testing.T) {
			virtually(t, true, func(t *testing.T, l *laggard) {
				l.exit.answer = answer
				circ := l.doubtful(t)
				circ.Close()
				circ.Close()
				synctest.Wait()
				right := what == "refuses"
				if right != (circ.Err() != nil) {
					t.Fatalf("the circuit's end: %v", circ.Err())
				}
				if time.Sleep(59 * time.Second); !right && circ.Err() != nil {
					t.Error("too early: ", circ.Err())
				}
				time.Sleep(2 * time.Second)
				if circ.Err() == nil {
					t.Error("it stays for ever")
				}
				if tried, answered := l.uses(); tried != 1 || right != (answered == 1) {
					t.Errorf("%v of %v uses were answered", answered, tried)
				}
				if len(l.exit.heard) != 1 {
					t.Fatalf("the exit was asked %d times", len(l.exit.heard))
				}
				addr, rest, _ := strings.Cut(string(l.exit.heard[0]), ":")
				if a := netip.MustParseAddr(addr); a.As4()[0] != 0 || rest != "25\x00" {
					t.Errorf("the exit was asked for %q", l.exit.heard[0])
				}
			})
		})
	}
}

// TestProbeEndsWithTheClient: nobody waits for an answer when the client closes.
func TestProbeEndsWithTheClient(t *testing.T) {
	virtually(t, true, func(t *testing.T, l *laggard) {
		circ := l.doubtful(t)
		circ.Close()
		synctest.Wait()
		began := time.Now()
		if err := l.Close(); err != nil || time.Since(began) > time.Second || circ.Err() == nil {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestNoProbe: the exit is not asked where C tor does not ask, or nothing is in doubt.
func TestNoProbe(t *testing.T) {
	for what, change := range map[string]func(*OpenCircuit){
		"answered":              func(c *OpenCircuit) { c.path.Guard.StreamAnswered() },
		"of a set":              func(c *OpenCircuit) { c.life.purpose(InSet) },
		"for an onion service":  func(c *OpenCircuit) { c.longer.Store(true) },
		"a controller's relays": func(c *OpenCircuit) { c.excused.Store(true) },
		"a controller's":        func(c *OpenCircuit) { c.life.purpose(ForController) },
		"fast":                  nil,
	} {
		t.Run(what, func(t *testing.T) {
			virtuallyAs(t, true, change == nil, func(t *testing.T, l *laggard) {
				circ := l.doubtful(t)
				if change != nil {
					change(circ)
				}
				circ.Close()
				if synctest.Wait(); circ.Err() == nil || len(l.exit.heard) > 0 {
					t.Errorf("the circuit's end: %v; the exit was asked %d times", circ.Err(), len(l.exit.heard))
				}
			})
		})
	}
}
