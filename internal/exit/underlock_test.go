package exit

import (
	"errors"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/simnet"
)

// TestTakenAfterClose: a stream that comes on a circuit that has closed leaves nothing of the
// circuit behind.
func TestTakenAfterClose(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	c := r.Circuit(t)
	c.Close(cell.DestroyNone, errors.New("the test closes it"))
	e, err := New(accept(t, "accept *:*"), nil, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if over, destroy := e.take(c.Last(), cell.RelayBegin); over || destroy {
		t.Error("the first stream is refused")
	}
	r.Clients.WaitEnds()
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.circs); n != 0 {
		t.Errorf("%d closed circuits are known", n)
	}
}
