package stream

import (
	"strconv"
	"testing"
	"unsafe"
)

// TestStreamIsSmall: there may be tens of thousands of silent streams. 320 is a size of
// the allocator.
func TestStreamIsSmall(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("pointers are shorter here")
	}
	if n := unsafe.Sizeof(Stream{}); n > 320 {
		t.Errorf("a stream takes %d bytes, more than 320", n)
	}
}
