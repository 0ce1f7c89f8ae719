package circuit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// cut returns the fragments of a message of n bytes.
func cut(t *testing.T, n int) [][]byte {
	t.Helper()
	parts, err := handshake.AppendFragments(nil, make([]byte, n), 498)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// TestLongMessageEnds: a message whose rest does not come ends the circuit,
// although nothing else comes either; one that is whole does not, nor does one
// of a circuit that has closed.
func TestLongMessageEnds(t *testing.T) {
	parts := cut(t, 1000)
	for name, v := range map[string]struct {
		parts [][]byte
		close bool
		want  fault.Kind
	}{
		"cut":    {parts[:2], false, fault.Timeout},
		"whole":  {parts, false, fault.Unknown},
		"closed": {parts[:1], true, fault.Closed},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCircuit(&Env{Now: time.Now}, nil)
			h := &Hop{c: c}
			c.addHop(h)
			for _, p := range v.parts {
				if _, err := h.reassemble(cell.RelayLongExtend2, p); err != nil {
					t.Fatal(name, err)
				}
			}
			if v.close {
				c.Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
			}
			time.Sleep(handshake.FragmentTimeout - 1)
			if err := c.Err(); (err != nil) != v.close {
				t.Errorf("%s: too early: %v", name, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if err := c.Err(); fault.KindOf(err) != v.want || (err == nil) != (v.want == fault.Unknown) {
				t.Errorf("%s: %v", name, err)
			}
			c.Close(cell.DestroyNone, nil)
		})
	}
}

// TestRekeyEnds: a relay does not wait for CONFIRM for ever.
func TestRekeyEnds(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCircuit(&Env{Now: time.Now}, nil)
			h := &Hop{c: c}
			c.addHop(h)
			h.rekey.overdue.start(h, "REKEY_CONFIRM")
			if confirmed {
				h.rekey.overdue.stop()
			}
			time.Sleep(handshake.FragmentTimeout)
			synctest.Wait()
			if err := c.Err(); fault.Is(err, fault.Timeout) == confirmed {
				t.Error(confirmed, err)
			}
		})
	}
}

// TestOneLongMessage: none begins between the fragments of another.
func TestOneLongMessage(t *testing.T) {
	h := &Hop{c: newCircuit(&Env{Now: time.Now}, nil)}
	h.c.addHop(h)
	defer h.c.Close(cell.DestroyNone, nil)
	first := cut(t, 1000)[0]
	if _, err := h.reassemble(cell.RelayLongExtend2, first); err != nil {
		t.Fatal(err)
	}
	if _, err := h.reassemble(cell.RelayRekeyRequest, first); !fault.Is(err, fault.Protocol) {
		t.Error(err)
	}
}
