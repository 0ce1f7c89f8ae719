package channel

import (
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
)

// TestCreateTwice: a request for a circuit whose identifier is in use is dropped. The circuit
// and the others of the link go on.
func TestCreateTwice(t *testing.T) {
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		const id = 1<<31 | 5
		create := cell.AppendFixed(nil, id, cell.CmdCreate2, nil)
		if _, err := a.conn.Write(append(create, create...)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n, _ := b.Circuits(); n != 1 || len(accepted) != 1 || b.Err() != nil {
			t.Fatalf("%d circuits, %d accepted: %v", n, len(accepted), b.Err())
		}
		if _, err := a.conn.Write(cell.AppendFixed(nil, id, cell.CmdDestroy, nil)); err != nil {
			t.Fatal(err)
		}
		<-(<-accepted).ended
		if _, err := a.conn.Write(create); err != nil {
			t.Fatal(err)
		}
		<-accepted // the identifier is free again
	})
}

// TestMistakesKeepTheLink: as with C tor, what a peer gets wrong about one circuit, or about
// padding, does not end the link and all its circuits. A request for a circuit is answered if
// there is a circuit to name.
func TestMistakesKeepTheLink(t *testing.T) {
	fixed := func(id uint32, cmd cell.Command, body ...byte) []byte { return cell.AppendFixed(nil, id, cmd, body) }
	stop := fixed(0, cell.CmdPaddingNegotiate, 0, byte(cell.PaddingStop))
	for name, c := range map[string]struct {
		send   []byte
		back   bool   // the responder sends it
		answer uint32 // the circuit that is destroyed; 0: none
	}{
		"CREATE2 with an identifier of the responder": {fixed(5, cell.CmdCreate2), false, 5},
		"CREATE2 with an identifier of the initiator": {fixed(1<<31|5, cell.CmdCreate2), true, 1<<31 | 5},
		"CREATE2 to a client":                         {fixed(5, cell.CmdCreate2), true, 5},
		"CREATE2 on circuit 0":                        {fixed(0, cell.CmdCreate2), false, 0},
		"CREATE2 on circuit 0, to a client":           {fixed(0, cell.CmdCreate2), true, 0},
		"PADDING_NEGOTIATE, unknown command":          {fixed(0, cell.CmdPaddingNegotiate, 0, 9), false, 0},
		"PADDING_NEGOTIATE, unknown version":          {fixed(0, cell.CmdPaddingNegotiate, 1, 1), false, 0},
		"PADDING_NEGOTIATE to a client":               {stop, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
				from, to := a, b
				if c.back {
					from, to = b, a
				}
				asked := newSink()
				if c.answer != 0 {
					from.mu.Lock()
					from.addLocked(c.answer, nil).SetReceiver(asked)
					from.mu.Unlock()
				}
				if _, err := from.conn.Write(c.send); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if err := to.Err(); err != nil {
					t.Fatal(err)
				}
				if n, _ := to.Circuits(); n != 0 || len(accepted) != 0 {
					t.Errorf("%d circuits, %d accepted", n, len(accepted))
				}
				if c.answer != 0 && asked.reason != cell.DestroyProtocol {
					t.Errorf("the answer is %v", asked.reason)
				}
			})
		})
	}
}
