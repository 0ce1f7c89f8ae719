package channel

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// TestFillAfterVariable: an urgent cell of variable length leaves room for no
// whole number of cells, and the record is closed before the end.
func TestFillAfterVariable(t *testing.T) {
	const variable = 1700 // such as a post-quantum CREATE
	ch := &Channel{circs: map[uint32]*CircuitEnd{}, urgent: make([]byte, variable)}
	c := &CircuitEnd{heapAt: -1}
	c.q.push(make([]byte, 2*recordCells*cell.Len), false)
	ch.sched.add(c)
	record := make([]byte, recordCells*cell.Len)
	n, whole, _, _ := ch.fillLocked(record, time.Unix(1, 0), nil)
	if cells := (len(record) - variable) / cell.Len; whole != nil || n != variable+cells*cell.Len || c.q.n != 2*recordCells-cells {
		t.Errorf("the record has %d bytes, and %d cells are left", n, c.q.n)
	}
}
