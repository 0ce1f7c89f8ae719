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
