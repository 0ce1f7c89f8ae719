package layer

import (
	"testing"
	"unsafe"
)

// TestSize: a relay has two tor1 for each circuit, most of them at rest.
func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(tor1{}); size > 64 {
		t.Errorf("a direction of tor1 takes %d bytes", size)
	}
}
