package circuit

import (
	"testing"
	"unsafe"
)

// TestSizes: a relay has a hundred thousand circuits, each with a hop. The bounds are classes of
// sizes in which Go allocates, so that one more byte costs 32 or 16.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the bounds are for pointers of eight bytes")
	}
	if size := unsafe.Sizeof(Hop{}); size > 480 {
		t.Errorf("a hop takes %d bytes", size)
	}
	if size := unsafe.Sizeof(Circuit{}); size > 192 {
		t.Errorf("a circuit takes %d bytes", size)
	}
}
